"""The house: who may import whom, what nobody may import, and how long a file may get."""
import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOORS = ["sideeffects", "symbolic", "codegen", "jit"]  # each knows only those before it
BANNED = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "torch._functorch.partitioners", "torch._C._dynamo",
          "torch.compile", "torch.export")
LINES = 900


def modules():
    """Module name -> path, for all Python files of the four packages."""
    found = {}
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text(), str(path)) for name, path in MODULES.items()}


def package_of(name):
    return name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]


def absolute(name, node):
    """The full names that an import statement binds or reads: `from a import b` gives `a` and `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = package_of(name).split(".")
        parts = parts[:len(parts) - node.level + 1]
        base = ".".join([*parts, base] if base else parts)
    return [base] + [f"{base}.{alias.name}" for alias in node.names]


def imports(tree):
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def for_typing_only(tree):
    """Imports under `if TYPE_CHECKING:`: they bind nothing at run time."""
    return {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for inner in ast.walk(node) if isinstance(inner, (ast.Import, ast.ImportFrom))}


def test_the_four_packages_stand():
    assert {name.split(".")[0] for name in MODULES} == set(FLOORS)


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name):
    floor = FLOORS.index(name.split(".")[0])
    above = set(FLOORS[floor + 1:])
    wrong = [f"{MODULES[name].relative_to(ROOT)}:{node.lineno} imports {target}" for node in imports(TREES[name])
             for target in absolute(name, node) if target.split(".")[0] in above | {"tests", "tools"}]
    assert not wrong, wrong


@pytest.mark.parametrize("name", MODULES)
def test_own_packages_are_not_imported_inside_functions(name):
    wrong = [f"{MODULES[name].relative_to(ROOT)}:{node.lineno}" for function in ast.walk(TREES[name])
             if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) for node in imports(function)
             if absolute(name, node)[0].split(".")[0] in FLOORS]
    assert not wrong, wrong


def test_no_cycles():
    edges = {}
    for name, tree in TREES.items():
        skipped = for_typing_only(tree)
        targets = {target for node in imports(tree) if id(node) not in skipped for target in absolute(name, node) if target in MODULES}
        # `from package import module` runs the package's own __init__ first, which is above nothing that it imports itself.
        edges[name] = {t for t in targets if t != name and not name.startswith(t + ".")}
    state, path = {}, []

    def visit(name):
        state[name] = "open"
        path.append(name)
        for target in sorted(edges[name]):
            assert state.get(target) != "open", " -> ".join([*path[path.index(target):], target])
            if target not in state:
                visit(target)
        path.pop()
        state[name] = "done"
    for name in edges:
        if name not in state:
            visit(name)


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def banned(target):
    return any(target == name or target.startswith(name + ".") for name in BANNED)


@pytest.mark.parametrize("name", MODULES)
def test_nothing_banned_is_imported_or_named(name):
    tree, where = TREES[name], MODULES[name].relative_to(ROOT)
    wrong = [f"{where}:{node.lineno} imports {target}" for node in imports(tree) for target in absolute(name, node) if banned(target)]
    # A table may name what users write, as a key: `torch.compile: "another compiler"`.
    keys = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys if dotted(key) in ("torch.compile", "torch.export")}
    wrong += [f"{where}:{node.lineno} uses {dotted(node)}" for node in ast.walk(tree)
              if isinstance(node, ast.Attribute) and banned(dotted(node)) and id(node) not in keys]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("import_module", "__import__") or (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("import_module", "__import__")):
            wrong += [f"{where}:{node.lineno} imports {arg.value}" for arg in node.args
                      if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and banned(arg.value)]
    assert not wrong, wrong


def test_extension_names_nothing_banned():
    for path in (ROOT / "jit" / "csrc").rglob("*"):
        if path.suffix in (".c", ".cpp", ".h", ".hpp"):
            text = path.read_text()
            assert not any(name in text for name in BANNED), path


def every_file():
    folders = [*FLOORS, "tests", "tools"]
    return [path for folder in folders if (ROOT / folder).exists() for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in (".py", ".c", ".cpp", ".h", ".hpp") and "build" not in path.parts]


def test_no_file_is_too_long():
    long = {str(path.relative_to(ROOT)): count for path in every_file() if (count := len(path.read_text().splitlines())) > LINES}
    assert not long, long

