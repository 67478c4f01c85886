#!/usr/bin/env python3
"""Checks that the modules of a crate import each other without circles.

usage: check_imports.py CRATE...

CRATE is the directory of a crate. An import is a path in a `use` item or in code; it counts for the
module that defines the name. Re-exports are not imports, and test modules do not count.
Exit status: 0 no circle; 1 a circle, which is printed.
"""

import graphlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]

USE = re.compile(r"(?:^|\n)\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test[^\]]*\]\s*(?:pub(?:\([^)]*\))? )?mod \w+\s*\{")
PATH_IN_CODE = re.compile(r"(?<![\w:.])([a-z_]\w*(?:::\w+)+)")


def matching_brace(text: str, start: int) -> int:
    """Returns the offset after the brace that closes the one before `start`."""
    depth = 1
    while depth and start < len(text):
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start


def product_code(text: str) -> str:
    """Returns the text without comments, strings and test modules."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text, flags=re.S)
    while match := TEST_MODULE.search(text):
        text = text[: match.start()] + text[matching_brace(text, match.end()) :]
    return text


def paths_of(tree: str) -> Iterator[str]:
    """Yields the paths of a `use` tree."""
    match = re.fullmatch(r"(.*?)\{(.*)\}", tree.strip(), re.S)
    if not match:
        yield re.sub(r"\s+as\s+\w+$", "", tree).strip()
        return
    item, depth = "", 0
    for char in match[2] + ",":
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char != "," or depth:
            item += char
            continue
        if item.strip():
            yield from (match[1] + path for path in paths_of(item))
        item = ""


class Crate:
    """The modules of a crate, with the paths that each imports and re-exports."""

    def __init__(self, directory: Path) -> None:
        sources = directory / "src"
        self.text: dict[Module, str] = {}
        for file in sorted(sources.rglob("*.rs")):
            module = file.relative_to(sources).with_suffix("").parts
            if module[-1] in ("mod", "lib", "main"):
                module = module[:-1]
            is_test = "tests" in module or module[-1:] and module[-1].endswith("_tests")
            if not is_test and module[:1] != ("bin",):
                self.text[module] = product_code(file.read_text())
        self.exports: dict[Module, dict[str, list[Module]]] = {}
        self.imports: dict[Module, list[Module]] = {}
        for module, text in self.text.items():
            self.read_imports(module, text)

    def read_imports(self, module: Module, text: str) -> None:
        exports: dict[str, list[Module]] = {}
        imports: list[Module] = []
        for is_public, tree in USE.findall(text):
            for path in paths_of(tree):
                full = self.absolute(module, path)
                if full is not None and is_public:
                    exports.setdefault(path.split("::")[-1], []).append(full)
                elif full is not None:
                    imports.append(full)
        for path in PATH_IN_CODE.findall(USE.sub("", text)):
            full = self.absolute(module, path)
            if full is not None:
                imports.append(full)
        self.exports[module], self.imports[module] = exports, imports

    def absolute(self, module: Module, path: str) -> Module | None:
        """Returns the path from the root of the crate; `None` for a path into another crate."""
        parts = [part.strip() for part in path.split("::")]
        if parts[0] == "crate":
            return tuple(parts[1:])
        if parts[0] not in ("self", "super"):
            return (*module, *parts) if (*module, parts[0]) in self.text else None
        while parts[:1] == ["super"]:
            module, parts = module[:-1], parts[1:]
        return (*module, *(part for part in parts if part != "self"))

    def owner(self, path: Module, seen: frozenset[Module] = frozenset()) -> Module | None:
        """Returns the module that defines the name; re-exports are followed."""
        if path in seen:
            return None
        length = next(length for length in range(len(path), -1, -1) if path[:length] in self.text)
        module, rest = path[:length], path[length:]
        if not rest:
            return module
        for target in self.exports[module].get(rest[0], []):
            found = self.owner(target + rest[1:], seen | {path})
            if found is not None:
                return found
        definition = re.compile(rf"\b(struct|enum|trait|fn|type|const|static|union|mod)\s+{re.escape(rest[0])}\b")
        for target in self.exports[module].get("*", []):
            if definition.search(self.text.get(target[:-1], "")):
                return target[:-1]
        return module

    def graph(self) -> dict[Module, set[Module]]:
        """Returns the modules that each module imports."""
        graph: dict[Module, set[Module]] = {}
        for module, paths in self.imports.items():
            owners = {self.owner(path) for path in paths}
            graph[module] = {owner for owner in owners if owner is not None and owner != module}
        return graph


def main(directories: list[str]) -> int:
    """Checks each crate; returns the exit status."""
    status = modules = 0
    for directory in directories:
        graph = Crate(Path(directory)).graph()
        modules += len(graph)
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            # The sorter lists each module before the one that imports it.
            names = ["::".join(module) or "crate" for module in reversed(error.args[1])]
            print(f"{directory}: modules import each other in a circle: {' -> '.join(names)}")
            status = 1
    print(f"{modules} modules in {len(directories)} crates")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
