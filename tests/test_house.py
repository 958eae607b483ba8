"""The rules of the house, read off the source: who may import what, sizes, docstrings, names, and doctests that run."""

import ast
import doctest
import importlib
import re
import statistics
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("odevit", "analysis", "app")
ROOMS = {  # library -> the only places that may import it, as prefixes of the path
    "torchdiffeq": ("odevit/flow", "odevit/bench"),
    "matplotlib": ("analysis/figures",),
    "plotly": ("app/charts",),
    "streamlit": ("app/",),
    "torchvision": ("odevit/data",),
    "sklearn": ("odevit/data",),
    "tyro": ("app/",),
}
ABOVE = {"odevit": ("analysis", "app"), "analysis": ("app",), "app": ()}  # what a package may not know of
MACHINE = re.compile(r"(?<![\w.~/-])/(?:work|root|farm|home)/")  # somebody's disk
TEXT = {".py", ".md", ".toml", ".json", ".csv", ".cff", ".cfg", ".yaml", ".yml", ".txt", ".mplstyle", ""}


def sources(*packages: str) -> list[Path]:
    return sorted(p for name in packages or PACKAGES for p in (ROOT / name).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(nodes) -> set[str]:
    """Top-level names of what is imported absolutely."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def length(node: ast.FunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def tracked() -> list[Path]:
    """Text files under version control, or what would be, where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        files = [*sources(), *(ROOT / "tests").glob("*.py"), *ROOT.glob("*.*"), *(ROOT / "checkpoints").rglob("*")]
    return [f for f in files if f.is_file() and f.suffix in TEXT]


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package):
    """odevit <- analysis <- app."""
    wrong = {name_of(p): sorted(imports(ast.walk(tree(p))) & set(ABOVE[package])) for p in sources(package)}
    assert not {k: v for k, v in wrong.items() if v}


@pytest.mark.parametrize("library", ROOMS)
def test_libraries_stay_in_their_rooms(library):
    users = [name_of(p) for p in sources() if library in imports(ast.walk(tree(p)))]
    assert not [u for u in users if not u.startswith(ROOMS[library])]


def test_the_command_line_starts_without_the_browser():
    """streamlit is slow to import, and whoever trains on a cluster may not want it."""
    views = [p for p in sources("app") if "streamlit" in imports(ast.walk(tree(p)))]
    direct = {p.stem for p in views if "streamlit" in imports(tree(p).body)}
    assert "cli" not in direct and "commands" not in direct


def test_reports_need_numpy_only():
    heavy = {"torch", "scipy", "matplotlib", "plotly", "sklearn", "torchvision"}
    assert not {name_of(p) for p in sources("analysis") if "reports" in p.parts and imports(ast.walk(tree(p))) & heavy}


def test_numbers_and_pictures_never_share_a_file():
    for path in sources("analysis"):
        if "figures" in path.parts:
            assert not imports(ast.walk(tree(path))) & {"torch"}, name_of(path)


def test_files_have_at_most_300_lines():
    long = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in sources()}
    assert not {k: v for k, v in long.items() if v > 300}


def test_functions_have_at_most_60_lines_and_most_are_short():
    lengths = {f"{name_of(p)}:{node.name}": length(node) for p in sources() for node in functions(p)}
    median = statistics.median(lengths.values())
    print(f"{len(lengths)} functions, median {median:g} lines")
    assert not {k: v for k, v in lengths.items() if v > 60}
    assert median <= 14


def without_docstring(path: Path) -> list[str]:
    """Public names of a file that say nothing: the module, its classes and functions, the methods of its classes."""
    module = tree(path)
    silent = [] if ast.get_docstring(module) or not module.body else [name_of(path)]
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

    def look(body, prefix):
        for node in body:
            if isinstance(node, kinds) and not node.name.startswith("_"):
                if not ast.get_docstring(node):
                    silent.append(f"{prefix}{node.name}")
                if isinstance(node, ast.ClassDef):
                    look(node.body, f"{prefix}{node.name}.")

    look(module.body, f"{name_of(path)}:")
    return silent


def test_every_public_name_has_a_docstring():
    assert not [name for p in sources() for name in without_docstring(p)]


def test_module_names_are_unique_and_say_something():
    names = Counter(p.stem for p in sources() if p.stem != "__init__")
    assert not [name for name, count in names.items() if count > 1]
    assert not set(names) & {"utils", "util", "common", "helpers", "helper", "misc"}
    packages = {p.parent.name for p in sources() if p.stem == "__init__"}
    assert not packages & {"utils", "common", "helpers", "pages"}


def test_streamlit_is_not_led_astray():
    """A file app/app.py hides the package app, a folder pages/ is picked up by itself."""
    assert not (ROOT / "app" / "app.py").exists()
    assert not [p for name in PACKAGES for p in (ROOT / name).rglob("pages") if p.is_dir()]


def test_no_path_of_somebodys_machine_is_in_the_repository():
    found = {}
    for path in tracked():
        if hits := MACHINE.findall(path.read_text(encoding="utf-8", errors="ignore")):
            found[name_of(path)] = len(hits)
    assert not found


def test_nothing_is_left_for_later():
    words = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
    assert not [name_of(p) for p in [*sources(), *(ROOT / "tests").glob("*.py")] if words.search(p.read_text(encoding="utf-8"))]


def test_tests_are_flat_and_named_after_what_they_test():
    assert not [p for p in (ROOT / "tests").rglob("*.py") if p.parent != ROOT / "tests"]
    stems = {p.stem for p in sources()} | {p.parent.name for p in sources()}
    tests = {p.stem.removeprefix("test_") for p in (ROOT / "tests").glob("test_*.py")}
    core = {"layout", "trajectory", "flow", "attention", "field", "tokens", "model", "vit", "losses", "config"}
    assert core <= tests & stems


def with_doctests() -> list[str]:
    """Modules of odevit and analysis with an example in a docstring."""
    found = []
    for path in sources("odevit", "analysis"):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.parametrize("name", with_doctests())
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    examples = [t for t in doctest.DocTestFinder(exclude_empty=True).find(module) if t.examples]
    assert examples
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted and not result.failed
