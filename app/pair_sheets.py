"""What `odevit figures --teacher` adds: the reports of the pair, and the teacher in the table of results."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from odevit.data import ImageSet


def pair_reports_of(teacher: str | None, student: Path, data: ImageSet, images: int) -> dict[str, tuple[Any, ...]]:
    """The reports of a student beside its teacher, by name, on evenly spaced images of a set; none without a teacher."""
    from analysis import pair_reports

    if teacher is None:
        return {}
    count = min(images, len(data))
    some = data.subset([i * len(data) // count for i in range(count)])
    return {name: (report,) for name, report in pair_reports(teacher, student, some).items()}


def teacher_scores(teacher: str, student: Mapping[str, Any], data: ImageSet) -> dict[str, Any]:
    """The teacher of a student, given its config, as a row of the table of results."""
    from odevit import teachers
    from odevit.evaluate import evaluate, macs, parameters

    run = student.get("training", {}).get("run", {})
    model = teachers.load(teacher, num_heads=run.get("teacher_heads"), img_size=run.get("img_size"))
    known = {"name": f"{Path(teacher).name} (teacher)", "parameters": parameters(model), "macs": macs(model)}
    return known | asdict(evaluate(model, data))
