"""The style guide as a check: sizes, docstrings, layers, homes of effects, words.

`python tools/tidy.py [ROOT]` prints one line for each finding, `path:line: rule: message`, and
exits with 1 if there is any. Each message ends with what to write instead. The tables come first:
they are the rules; `tests/test_tidy.py` shows a violation of each.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# Sizes.

COLUMNS_MAX = 100
MODULE_LINES_MAX = 300
FUNCTION_LINES_MAX = {"durasess": 60, "tests": 80, "tools": 80, "benchmarks": 80}

# Names.

LONGER_MODULES = {
    # Public handles: one class each whose docstrings are the manual.
    "durasess/store/store.py": 370,
    "durasess/store/catalog.py": 340,
    # A commit, a rotation and a close, from end to end.
    "durasess/engine/writer.py": 522,
    # One write with all that can go wrong with it; a turn likewise; opening in three modes.
    "durasess/engine/log.py": 325,
    "durasess/engine/opening.py": 308,
    # Rules that are read side by side.
    "durasess/engine/scan.py": 362,
    "durasess/engine/codec.py": 357,
}
VAGUE_MODULES = frozenset(["util", "utils", "helper", "helpers", "common", "misc"])
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")

BANNED_WORDS = {
    "wal": "log",
    "journal": "log",
    "lsn": "seq",
    "seqno": "seq",
    "sequence number": "seq",
    "corrupt tail": "torn tail",
    "flush to disk": "sync",
    "roll over": "rotate",
    "rollover": "rotate",
    "truncate log": "prune",
    "vacuum": "prune",
    "garbage collect": "prune",
}
"""Word or words → the one the project uses. A docstring line about SQLite may use SQLite's own."""

# Layers: a module imports from its own layer and those below; inside engine only from below.

LAYERS = ("errors", "engine", "session", "store", "interop", "durasess", "cli")
"""From the bottom. `durasess` is the package's own `__init__`: it re-exports the public names."""

ENGINE_LEVELS = (
    frozenset(["types", "paths", "disk", "flock"]),
    frozenset(["depth"]),
    frozenset(["files", "codec", "frames", "values", "patience"]),
    frozenset(["publishing", "state", "records"]),
    frozenset(
        ["lock", "meta", "segment", "snapshot", "torn", "receipt", "quarantine", "feeds", "scratch"]
    ),
    frozenset(["plain", "fold", "workers", "blobs", "newest", "sealed"]),
    frozenset(["scan"]),
    frozenset(["survey", "ahead"]),
    frozenset(["walk"]),
    frozenset(["reached"]),
    frozenset(
        ["log", "recovery", "settle", "prune", "verify", "tickets", "history", "create", "lifetime"]
    ),
    frozenset(["scheduler"]),
    frozenset(
        ["repair", "branch", "ledger", "admission", "aftermath", "shared_log", "job", "turns"]
    ),
    frozenset(["compression"]),
    frozenset(["snapshotter", "drafting", "live", "together", "arguments"]),
    frozenset(["assembly", "outbox"]),
    frozenset(["writer"]),
    frozenset(["opening"]),
    frozenset(["handle"]),
    frozenset(["view"]),
    frozenset(["engine"]),
)
LEVEL_OF = {name: level for level, names in enumerate(ENGINE_LEVELS, 1) for name in names}

CLI = "durasess/cli/"
FILES = "durasess/engine/files.py"
PATHS = "durasess/engine/paths.py"
CODEC = "durasess/engine/codec.py"
FLOCK = "durasess/engine/flock.py"
FRAMES = "durasess/engine/frames.py"
SCHEDULER = "durasess/engine/scheduler.py"
ENGINE = "durasess/engine/engine.py"
STORE = "durasess/store/store.py"
IDS = "durasess/store/ids.py"


class Home(NamedTuple):
    """Names that only some places of `scope` may use; `a.*` stands for everything inside `a`."""

    rule: str
    names: tuple[str, ...]
    places: tuple[str, ...]
    instead: str
    scope: str = "durasess/"


IMPORT_HOMES = (
    Home("dependency", ("rich",), (CLI,), "return a value and let durasess/cli/ show it"),
    Home("dependency", ("portalocker",), (FLOCK,), "lock through the Files interface"),
    Home("dependency", ("zstandard",), (FRAMES,), "compress through durasess.engine.frames"),
    Home(
        "codec",
        ("msgspec.json", "json", "zlib", "hashlib"),
        (CODEC,),
        "turn values into bytes and bytes into values in durasess.engine.codec",
        "durasess/engine/",
    ),
)
LAZY_IMPORTS = ("portalocker",)
"""Imported only inside a function, so that `import durasess` does not pay for them."""

OS_EFFECTS = (
    "open fdopen write writev pwrite pwritev fsync fdatasync sync rename renames replace unlink "
    "remove removedirs mkdir makedirs rmdir ftruncate truncate link symlink chmod fchmod"
)
EFFECT_HOMES = (
    Home(
        "disk",
        (*(f"os.{name}" for name in OS_EFFECTS.split(" ")), "shutil.*", "io.open", "builtins.open"),
        (FILES,),
        "call the Files interface of durasess/engine/files.py",
    ),
    Home("disk", ("tempfile.*",), (FILES, CLI), "publish through durasess/engine/files.py"),
    Home(
        "print",
        ("builtins.print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"),
        (CLI,),
        "return a value or raise, and let durasess/cli/ print it",
    ),
    Home(
        "clock",
        (
            "time.time",
            "time.time_ns",
            "datetime.datetime.now",
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "datetime.date.today",
        ),
        (FILES, ENGINE, STORE, CLI),
        "take the clock or the time as an argument",
    ),
    Home(
        "clock",
        ("time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns"),
        (FILES, SCHEDULER, CLI),
        "take the clock or the time as an argument",
    ),
    Home(
        "randomness",
        ("random.*", "secrets.*", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom"),
        (FILES, IDS, CLI),
        "take the random value or its source as an argument",
    ),
)
HARMLESS = frozenset(["shutil.which", "shutil.get_terminal_size", "shutil.disk_usage"])

PATH_METHODS = frozenset(
    ["write_text", "write_bytes", "unlink", "rename", "touch", "mkdir", "rmdir", "symlink_to"]
)
PATH_METHOD_OWNERS = ("disk", "files", "session", "store")
"""A receiver named so is not a `pathlib.Path`: the Files interface, a session, a store."""

FILE_NAME = re.compile(r"meta\.json|snapshot(\.prev)?\.json\.zst|events_(\d+\.jsonl(\.zst)?)?")
"""A string that is one of these is a file name wherever it stands."""

PATH_PIECES = frozenset(["owner", "lock", "quarantine", "workers", "blobs", "snapshot"])
"""Ordinary words, file names only where a path is put together."""

PATH_BUILDERS = frozenset(
    ["os.path.join", "pathlib.Path", "pathlib.PurePath", "durasess.engine.paths.join"]
)

UNDOCUMENTED_BASES = frozenset(
    ["object", "Protocol", "Generic", "NamedTuple", "TypedDict", "Struct", "Enum", "StrEnum"]
)
"""A class with another base may inherit the docstrings of its methods."""

SKIPPED_DIRECTORIES = frozenset(["__pycache__", "build", "dist", "node_modules"])


@dataclass(frozen=True, order=True)
class Finding:
    """One violation and where it is; `str()` gives the line that the command prints."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


class Import(NamedTuple):
    """One imported name, absolute, and whether the import runs only when a function is called."""

    line: int
    target: str
    local_name: str
    bound: str
    inside_function: bool


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = FunctionNode | ast.ClassDef


def check_repository(root: Path) -> list[Finding]:
    """All findings in the Python and Markdown files below `root`."""
    paths = sorted(_paths(root))
    findings = check_paths(paths)
    for path in paths:
        text = (root / path).read_bytes().decode("utf-8", errors="replace")
        findings += check_markdown(path, text) if path.endswith(".md") else check_python(path, text)
    return sorted(set(findings))


def check_python(path: str, text: str) -> list[Finding]:
    """All findings that need only this file; its `path` below the root decides on the rules."""
    try:
        module = Module(path, text, ast.parse(text))
    except SyntaxError as error:
        return [Finding(path, error.lineno or 1, "syntax", f"{error.msg}; make it Python 3.11")]
    rules = list(EVERYWHERE_RULES)
    if path.startswith("durasess/"):
        rules += PACKAGE_RULES
    return sorted({finding for rule in rules for finding in rule(module)})


def check_markdown(path: str, text: str) -> list[Finding]:
    """Exactly one `#` title outside fenced code; no trailing blanks."""
    findings = list(_trailing_blanks(path, text))
    titles = [number for number, line in _unfenced(text) if re.match(r" {0,3}#(\s|$)", line)]
    if not titles:
        findings.append(Finding(path, 1, "title", "no `#` title; begin the file with one"))
    for number in titles[1:]:
        message = f"second `#` title, the first is in line {titles[0]}; write `##`"
        findings.append(Finding(path, number, "title", message))
    return findings


def check_paths(paths: Sequence[str]) -> list[Finding]:
    """What names alone tell: vague modules, modules outside the layers, missing unit tests."""
    findings = []
    for path in paths:
        parts = PurePosixPath(path).with_suffix("").parts
        if not path.endswith(".py"):
            continue
        for part in VAGUE_MODULES.intersection(parts):
            message = f"`{part}` says nothing of what is inside; name the module after its one job"
            findings.append(Finding(path, 1, "module-name", message))
        if parts[:2] == ("durasess", "engine") and len(parts) == 3 and parts[2] != "__init__":
            unit_test = f"tests/unit/test_{parts[2]}.py"
            if unit_test not in paths:
                message = f"the module has no unit test; write {unit_test}"
                findings.append(Finding(path, 1, "unit-test", message))
    return findings


class Module:
    """A parsed file with what several rules ask for."""

    def __init__(self, path: str, text: str, tree: ast.Module) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.top = path.split("/", 1)[0]
        parts = PurePosixPath(path).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self))

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported name of the file stands for, with dots."""
        return {name.local_name: name.bound for name in self.imports}

    @cached_property
    def bound_names(self) -> set[str]:
        """Names that the file gives a meaning of its own, outside of class bodies."""
        methods = {
            id(item) for node in self.nodes if isinstance(node, ast.ClassDef) for item in node.body
        }
        names = set()
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, Definition) and id(node) not in methods:
                names.add(node.name)
        return names

    def dotted(self, node: ast.AST) -> str | None:
        """`os.path.join` for an expression that means it, through whatever alias; else None."""
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.aliases:
            return self.aliases[node.id]
        is_builtin = node.id in ("open", "print") and node.id not in self.bound_names
        return f"builtins.{node.id}" if is_builtin else None

    def finding(self, line: int, rule: str, message: str) -> Finding:
        return Finding(self.path, line, rule, message)


# Rules for every Python file.


def _columns(module: Module) -> Iterator[Finding]:
    for number, line in enumerate(module.lines, 1):
        if len(line) > COLUMNS_MAX:
            message = f"{len(line)} columns; break the line at {COLUMNS_MAX}"
            yield module.finding(number, "columns", message)


def _blanks(module: Module) -> Iterator[Finding]:
    yield from _trailing_blanks(module.path, module.text)


def _function_length(module: Module) -> Iterator[Finding]:
    lines_max = FUNCTION_LINES_MAX.get(module.top, 80)
    for node in module.nodes:
        if isinstance(node, FunctionNode):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > lines_max:
                message = f"`{node.name}` has {count} lines; split it below {lines_max + 1}"
                yield module.finding(node.lineno, "function-length", message)


def _module_docstring(module: Module) -> Iterator[Finding]:
    empty_package = module.is_package and not module.tree.body
    if ast.get_docstring(module.tree) is None and (module.top == "durasess" or not empty_package):
        message = "the module has no docstring; say its one job in a sentence"
        yield module.finding(1, "docstring", message)


# Rules for durasess/.


def _module_length(module: Module) -> Iterator[Finding]:
    count = len(module.lines)
    most = LONGER_MODULES.get(module.path, MODULE_LINES_MAX)
    if count > most:
        message = f"{count} lines; split the module, at most {most}"
        yield module.finding(most + 1, "module-length", message)


def _docstrings(module: Module) -> Iterator[Finding]:
    for node in _public_definitions(module.tree.body):
        if ast.get_docstring(node) is None:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            message = f"public {kind} `{node.name}` has no docstring; add one, or a leading _"
            yield module.finding(node.lineno, "docstring", message)


def _leftovers(module: Module) -> Iterator[Finding]:
    for number, line in enumerate(module.lines, 1):
        if match := LEFTOVER.search(line):
            message = f"{match[0]} left over; do it now, or write it in an issue"
            yield module.finding(number, "leftover", message)


def _layer_table(module: Module) -> Iterator[Finding]:
    """Each module has its place in the tables above."""
    parts = module.name.split(".")
    if len(parts) == 1 or parts == ["durasess", "__main__"]:
        return
    if parts[1] not in LAYERS or parts[1] == "durasess":
        message = f"`{parts[1]}` is no layer; move the module into one of {', '.join(LAYERS)}"
        yield module.finding(1, "layer", message)
    elif parts[1] == "engine" and len(parts) > 2 and parts[2] not in LEVEL_OF:
        message = f"`{parts[2]}` is missing in ENGINE_LEVELS of tools/tidy.py; give it a level"
        yield module.finding(1, "layer", message)


def _layers(module: Module) -> Iterator[Finding]:
    """An import goes down only."""
    own = "cli" if module.name == "durasess.__main__" else _layer(module.name)
    for name in module.imports:
        if not _within(name.target, "durasess"):
            continue
        target = _layer(name.target)
        if LAYERS.index(target) > LAYERS.index(own):
            message = f"{own} imports {target} (`{name.target}`), which lies above; move the name"
            yield module.finding(name.line, "layer", f"{message} down or hand it in as a value")
        elif own == target == "engine" and not module.is_package:
            yield from _engine_levels(module, name)


def _engine_levels(module: Module, name: Import) -> Iterator[Finding]:
    own, target = module.name.split(".")[2], [*name.target.split("."), ""][2]
    if target not in LEVEL_OF:
        message = f"`{name.target}` is the package; import from the module that defines the name"
        yield module.finding(name.line, "layer", message)
    elif own in LEVEL_OF and LEVEL_OF[target] >= LEVEL_OF[own]:
        message = (
            f"engine/{own} (level {LEVEL_OF[own]}) imports engine/{target} (level"
            f" {LEVEL_OF[target]}); move what both need to a lower level, or hand it in as a value"
        )
        yield module.finding(name.line, "layer", message)


def _import_homes(module: Module) -> Iterator[Finding]:
    uses = [(name.line, name.target) for name in module.imports]
    uses += [(line, dotted) for line, dotted, _ in _references(module) if "msgspec." in dotted]
    for line, target in uses:
        for home in IMPORT_HOMES:
            used = next((name for name in home.names if _within(target, name)), None)
            if used and _outside(module.path, home):
                yield module.finding(line, home.rule, _home_message(used, home))
    for name in module.imports:
        if name.target.split(".")[0] in LAZY_IMPORTS and not name.inside_function:
            message = f"`{name.target}` imported at once; import it inside the function that uses"
            yield module.finding(name.line, "dependency", f"{message} it")


def _effect_homes(module: Module) -> Iterator[Finding]:
    reads = _cli_reads(module)
    for line, dotted, node in _references(module):
        if dotted in HARMLESS or id(node) in reads:
            continue
        for home in EFFECT_HOMES:
            if any(_matches(dotted, name) for name in home.names) and _outside(module.path, home):
                used = dotted.removeprefix("builtins.")
                yield module.finding(line, home.rule, _home_message(used, home))


def _path_methods(module: Module) -> Iterator[Finding]:
    """Effects through `pathlib.Path`, known by the method's name."""
    if module.path == FILES:
        return
    for node in module.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method, owner = node.func.attr, node.func.value
        if _last_identifier(owner).endswith(PATH_METHOD_OWNERS) or module.dotted(owner) == "os":
            continue
        if method in PATH_METHODS or (method == "open" and _mode(node, 0) == "write"):
            message = f"`.{method}()` outside {FILES}; call the Files interface of that module"
            yield module.finding(node.lineno, "disk", message)


def _file_names(module: Module) -> Iterator[Finding]:
    if module.path == PATHS:
        return
    pieces = {id(piece) for node in module.nodes for piece in _path_operands(module, node)}
    for node in module.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        is_piece = node.value in PATH_PIECES and id(node) in pieces
        if is_piece or FILE_NAME.fullmatch(node.value):
            message = f"file name {node.value!r} outside {PATHS}; use what that module offers"
            yield module.finding(node.lineno, "file-name", message)


def _words(module: Module) -> Iterator[Finding]:
    for line, identifier in _identifiers(module):
        words = " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)).lower()
        for banned, instead in BANNED_WORDS.items():
            if _word_pattern(banned).search(words):
                message = f"`{identifier}` says {banned!r}; the word is {instead!r}"
                yield module.finding(line, "word", message)
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from _docstring_words(module, node.value)


def _docstring_words(module: Module, docstring: ast.Constant) -> Iterator[Finding]:
    text = docstring.value if isinstance(docstring.value, str) else ""
    lines = text.split("\n")
    for banned, instead in BANNED_WORDS.items():
        for match in _word_pattern(banned).finditer(text):
            offset = text.count("\n", 0, match.start())
            if "SQLite" not in lines[offset]:
                message = f"docstring says {match[0]!r}; the word is {instead!r}"
                yield module.finding(docstring.lineno + offset, "word", message)


Rule = Callable[[Module], Iterator[Finding]]

EVERYWHERE_RULES: tuple[Rule, ...] = (_columns, _blanks, _function_length, _module_docstring)
PACKAGE_RULES: tuple[Rule, ...] = (
    _module_length,
    _docstrings,
    _leftovers,
    _layer_table,
    _layers,
    _import_homes,
    _effect_homes,
    _path_methods,
    _file_names,
    _words,
)


# What the rules ask for.


def _paths(root: Path) -> Iterator[str]:
    """The Python and Markdown files of the repository, relative, with forward slashes."""
    for child in root.iterdir():
        if child.is_symlink() or child.name.startswith(".") or child.name in SKIPPED_DIRECTORIES:
            continue
        if child.is_dir() and not (child / "pyvenv.cfg").exists():
            yield from (f"{child.name}/{path}" for path in _paths(child))
        elif child.suffix in (".py", ".md"):
            yield child.name


def _trailing_blanks(path: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if line != line.rstrip():
            yield Finding(path, number, "trailing-blank", "blanks at the end; remove them")


def _unfenced(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines outside ``` and ~~~ blocks."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(`{3,}|~{3,})(.*)", line)
        if not fence and mark:
            fence = mark[1]
        elif fence and mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        elif not fence:
            yield number, line


def _public_definitions(body: Iterable[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _public_definitions([*node.body, *node.orelse])
        if not isinstance(node, Definition) or node.name.startswith("_") or _repeats(node):
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            inherits = not all(_is_undocumented_base(base) for base in node.bases)
            classes = [item for item in node.body if isinstance(item, ast.ClassDef)]
            yield from _public_definitions(classes if inherits else node.body)


def _repeats(node: Definition) -> bool:
    """Whether it belongs to a definition that has the docstring: an overload, a setter."""
    marks = {_last_identifier(decorator) for decorator in node.decorator_list}
    return bool(marks & {"overload", "setter", "deleter", "override"})


def _is_undocumented_base(base: ast.expr) -> bool:
    name = _last_identifier(base.value if isinstance(base, ast.Subscript) else base)
    return name in UNDOCUMENTED_BASES or name.endswith(("Error", "Exception"))


def _imports(module: Module) -> Iterator[Import]:
    inside = {
        id(child)
        for node in module.nodes
        if isinstance(node, FunctionNode)
        for child in ast.walk(node)
    }
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                local, bound = (alias.asname, alias.name) if alias.asname else (first, first)
                yield Import(node.lineno, alias.name, local, bound, id(node) in inside)
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            for alias in node.names:
                target = f"{source}.{alias.name}"
                local = alias.asname or alias.name
                yield Import(node.lineno, target, local, target, id(node) in inside)


def _source(module: Module, node: ast.ImportFrom) -> str:
    """The absolute module of `from … import`."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    drop = node.level - 1 if module.is_package else node.level
    return ".".join([*package[: len(package) - drop], *([node.module] if node.module else [])])


def _layer(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "durasess"


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _matches(dotted: str, name: str) -> bool:
    if name.endswith(".*"):
        return dotted.startswith(name[:-1])
    return _within(dotted, name)


def _outside(path: str, home: Home) -> bool:
    return path.startswith(home.scope) and not path.startswith(home.places)


def _home_message(used: str, home: Home) -> str:
    return f"`{used}` outside {' and '.join(home.places)}; {home.instead}"


def _references(module: Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Line, meaning and node of each name that stands for something imported or built in.

    Called or handed on makes no difference; inside `a.b.c` only the whole counts; annotations
    don't count, since they name a type and have no effect.
    """
    annotations = {
        id(child)
        for node in module.nodes
        for annotation in _annotations(node)
        for child in ast.walk(annotation)
    }
    owners = {id(node.value) for node in module.nodes if isinstance(node, ast.Attribute)}
    for node in module.nodes:
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in owners | annotations:
            continue
        dotted = module.dotted(node)
        if dotted is not None:
            yield node.lineno, dotted, node


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, FunctionNode) and node.returns is not None:
        yield node.returns


def _cli_reads(module: Module) -> set[int]:
    """What the command may call: `open` of a file the user named, to read, and the null device."""
    if not module.path.startswith(CLI):
        return set()
    return {
        id(node.func)
        for node in module.nodes
        if isinstance(node, ast.Call) and _is_cli_read(module, node)
    }


def _is_cli_read(module: Module, call: ast.Call) -> bool:
    function = module.dotted(call.func)
    if function == "os.open":
        return bool(call.args) and module.dotted(call.args[0]) == "os.devnull"
    return function == "builtins.open" and _mode(call, 1) == "read"


def _mode(call: ast.Call, position: int) -> str:
    """Whether the mode given to an `open` is one to read, one to write, or not told literally."""
    given = [item.value for item in call.keywords if item.arg == "mode"]
    given += call.args[position : position + 1]
    for node in given:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"[rbt]+", node.value):
                return "read"
            if re.fullmatch(r"[rwaxbt+]+", node.value):
                return "write"
    return "unknown"


def _path_operands(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that become a piece of a path: right of a `/`, or given to a builder of paths."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.right
    if isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in (
            "joinpath",
            "with_name",
        )
        if is_method or module.dotted(node.func) in PATH_BUILDERS:
            yield from node.args


def _identifiers(module: Module) -> Iterator[tuple[int, str]]:
    """The names that this file chooses: of itself, what it defines, takes and assigns."""
    yield 1, module.name.rsplit(".", 1)[-1]
    for node in module.nodes:
        if isinstance(node, Definition):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _word_pattern(words: str) -> re.Pattern[str]:
    pattern = words.replace(" ", r"[\s_-]+")
    return re.compile(rf"\b{pattern}s?\b", re.IGNORECASE)


def _last_identifier(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_identifier(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def main(arguments: Sequence[str]) -> int:
    """Print the findings; 0 when there are none, 1 when there are, 2 for wrong usage."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("usage: python tools/tidy.py [ROOT]", file=sys.stderr)
        return 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    if not root.is_dir():
        print(f"{root} is no directory", file=sys.stderr)
        return 2
    findings = check_repository(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
