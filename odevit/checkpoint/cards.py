"""Model cards: README.md of a model folder, from facts."""

from collections.abc import Mapping, Sequence
from typing import Any

_FRONT = "---\nlicense: apache-2.0\nlibrary_name: odevit\npipeline_tag: image-classification\ntags:\n{tags}\n---\n"


def model_card(
    *,
    name: str,
    facts: Mapping[str, Any] | None = None,
    parameters: int | None = None,
    data: str = "",
    losses: str = "",
    results: Mapping[str, Mapping[str, Any]] | None = None,
    command: str = "",
    commit: str = "",
    hardware: str = "",
    limits: Sequence[str] = (),
) -> str:
    """The text of a README.md: YAML front matter, what the model is, how it was made, what was measured, what it is not.

    Args:
        name: title.
        facts: config.json as a dict; gives kind, sizes, solver and data where they are not said otherwise.
        parameters: number of trained numbers.
        data, losses, command, commit, hardware: one line each; what is empty is called not recorded.
        results: measured numbers by name, each {"value": .., "split": .., "n": .., "seed": ..}.
        limits: sentences on what the model is not good for, beside the one that stands in every card.
    """
    facts = facts or {}
    kind = facts.get("kind", "odevit")
    tags = dict.fromkeys(("odevit", kind, "neural-ode", "vision-transformer"))
    front = _FRONT.format(tags="\n".join(f"  - {tag}" for tag in tags))
    made = {
        "Data": data or facts.get("data", {}).get("source", ""), "Losses": losses, "Command": f"`{command}`" if command else "",
        "Commit": commit, "Hardware": hardware,
    }  # fmt: skip
    parts = [
        f"{front}\n# {name}",
        _summary(kind, facts, parameters),
        "\n".join(f"- {key}: {value or 'not recorded'}" for key, value in made.items()),
        "## Results\n\n" + _table(results or {}),
        "## Use\n\n```python\nimport odevit\n\nmodel = odevit.ODEViT.from_pretrained(PATH)\n"
        "logits = model(model.preprocess(image))\n```".replace("ODEViT", "ViT" if kind == "vit" else "ODEViT"),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in (*limits, _ALWAYS)),
    ]
    return "\n\n".join(parts) + "\n"


_ALWAYS = "A research model: it knows the classes and the kind of images it was trained on, and was not tested on others."


def _summary(kind: str, facts: Mapping[str, Any], parameters: int | None) -> str:
    model, solver = facts.get("model", {}), facts.get("solver", {})
    what = "A discrete vision transformer" if kind == "vit" else "A vision transformer integrated as an ODE"
    if not model:
        return what + "."
    count = "" if parameters is None else f", {parameters:,} parameters"
    size = f"{model['img_size']} px, patch {model['patch_size']}, width {model['embed_dim']}, {model['num_heads']} heads"
    solved = f"T = {solver['horizon']:g}, {solver['steps']} {solver['method']} steps"
    return f"{what}: {size}, {model['registers']} registers, {model['num_classes']} classes{count}; {solved}."


def _table(results: Mapping[str, Mapping[str, Any]]) -> str:
    if not results:
        return "None recorded."
    rows = ["| measure | value | split | n | seed |", "|---|---|---|---|---|"]
    for name, result in results.items():
        value = result.get("value")
        cells = [f"{value:.4g}" if isinstance(value, float) else str(value)]
        cells += [str(result.get(key, "not recorded")) for key in ("split", "n", "seed")]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)
