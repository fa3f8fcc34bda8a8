#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the dependencies of docs/developer/architecture.md: which folder may include which, and where
external libraries may be used; and words. Usage: check_layers.py SOURCE_FOLDER"""
import collections
import pathlib
import re
import sys

# base ← config, core ← ops, comm, io ← parameters ← nn, optim, data ← parallel ← train ← checkpoint ← run ← api, study, scaling ← app
MAY_USE = {
    "base": set(),
    "config": {"base"},
    "core": {"base"},
    "ops": {"base", "config", "core"},
    "comm": {"base", "config", "core"},
    "io": {"base", "core"},
    "parameters": {"base", "core", "ops", "io"},
    "nn": {"base", "config", "core", "ops", "parameters"},
    "data": {"base", "config", "core", "ops", "comm", "io"},
    "optim": {"base", "config", "core", "ops", "parameters"},
}
MAY_USE["parallel"] = set(MAY_USE)
MAY_USE["train"] = MAY_USE["parallel"] | {"parallel"}
MAY_USE["bench"] = {"base", "config", "core", "ops", "io", "parameters", "nn", "optim", "comm", "parallel"}
MAY_USE["checkpoint"] = MAY_USE["train"] | {"train"}
MAY_USE["run"] = MAY_USE["checkpoint"] | {"checkpoint"}
MAY_USE["scaling"] = MAY_USE["run"] | {"run"}
MAY_USE["api"] = MAY_USE["run"] | {"run"}
MAY_USE["study"] = MAY_USE["run"] | {"run"}
MAY_USE["app"] = MAY_USE["run"] | {"run", "study", "bench", "scaling"}
# Subfolders, and the other subfolders of the same folder that each may use. Subfolders that are not named use none.
MAY_USE_BESIDE = {
    "data/batch": {"dataset"},
    "data/import": {"dataset"},
    "ops/blaslt": {"elementwise", "products"},
    "ops/cudnn": {"products"},
    "ops/kokkos_kernels": {"portable", "products"},
    "ops/miopen": {"products"},
    "ops/onednn": {"portable", "products"},
    "ops/portable": {"products"},
    "ops/products": {"elementwise", "portable", "sequence"},
    "parallel/asynchronous": {"config", "groups", "reducers"},
    "parallel/compression": {"config"},
    "parallel/groups": {"config", "reducers"},
    "parallel/reducers": {"config"},
    "parallel/sharded": {"reducers"},
    "run/deck": {"monitor"},
    "run/experiment": {"deck", "monitor"},
    "run/folder": {"deck", "monitor", "resilience"},
    "run/inference": {"deck", "experiment"},
    "run/reports": {"deck", "experiment", "folder", "trainers", "training"},
    "run/trainers": {"deck", "experiment"},
    "run/training": {"deck", "experiment", "folder", "monitor", "resilience", "trainers"},
}
# External libraries: header → the only folders that may include it.
ONLY_IN = {
    r"Kokkos_.*": set(MAY_USE) - {"base", "config"},
    r"mpi\.h": {"api", "comm"},
    r"mpi-ext\.h": {"comm"},
    r"nccl\.h|rccl/.*": {"comm/nccl"},
    r"(hdf5|H5\w*)\.h": {"io"},
    r"yaml-cpp/.*": {"config"},
    r"spdlog/.*": {"base"},
    r"CLI/.*": {"app"},
    r"xxhash\.h": {"io"},
    r"zlib\.h": {"data"},
    r"(oneapi/)?dnnl.*": {"ops/onednn"},
    r"KokkosBlas.*": {"ops/kokkos_kernels"},
    r"cuda.*\.h": {"core", "ops/cudnn"},
    r"cudnn.*\.h": {"ops/cudnn"},
    r"miopen/.*": {"ops/miopen"},
    r"(cublas|hipblas).*\.h": {"ops/blaslt"},
}
# Folders that may use preprocessor conditionals.
CONDITIONALS = {"core", "comm", "ops/portable", "ops/onednn", "ops/kokkos_kernels", "ops/blaslt"}
MAX_COLUMNS = 120
MAX_LINES = 400
KERNEL = re.compile(r"^[^/]*\b(KOKKOS_LAMBDA|parallel_(for|reduce|scan)\()", re.M)
# Files whose kernels move, compare, count, or add up without products, so that compilers have no choice of rounding, or whose results do not
# reach runs (bench). All other files with kernels are compiled alone.
ROUND_ALIKE = {f"lib/{name}.cpp" for name in (
    "api/given_batch", "bench/kernels", "bench/optimizers", "bench/products", "nn/metrics/area_under_curve", "nn/metrics/class_metrics",
    "ops/elementwise/copies", "ops/nonfinite_examples", "ops/products/im2col", "parameters/offloaded_states",
    "parallel/groups/local_group", "train/guard/nonfinite_report")}


def compiled_alone(folder):
    """The files below the folder that are compiled alone (KERNELS of its CMakeLists.txt files)."""
    names = set()
    for lists in folder.glob("**/CMakeLists.txt"):
        for files in re.findall(r"\bKERNELS\s([^()]*?)(?=\bUSES\b|\))", lists.read_text(encoding="utf-8")):
            names |= {lists.parent / name for name in files.split()}
    return names


def has_kernels(source, path):
    """True if the file, or a header that it includes, has a kernel."""
    text = path.read_text(encoding="utf-8")
    headers = [source / "lib" / name for name in re.findall(r'^#include "(.*)"', text, re.M)]
    return any(KERNEL.search(t) for t in [text, *(header.read_text(encoding="utf-8") for header in headers if header.is_file())])


def check_kernels(source):
    """Files with kernels must be compiled alone: code of other files before a kernel may change the last bits of its results."""
    problems, alone = [], compiled_alone(source / "lib")
    for path in sorted({*source.glob("lib/**/*.cpp")}):
        name = path.relative_to(source).as_posix()
        has, lists = has_kernels(source, path), f"KERNELS in lib/{path.relative_to(source / 'lib').parts[0]}/CMakeLists.txt"
        if has and path not in alone and name not in ROUND_ALIKE:
            problems.append(f"{name}: holds a kernel, whose last bits may follow what is compiled as one with it; name it under {lists}, or, if all compilers round it alike, "
                            "to ROUND_ALIKE in tests/check_layers.py")
        elif path in alone and (not has or name in ROUND_ALIKE):
            problems.append(f"{name}: is compiled alone, and needs not be ({'it is in ROUND_ALIKE' if has else 'it holds no kernel'}); name it under SOURCES there, not under {lists}")
        elif not has and name in ROUND_ALIKE:
            problems.append(f"{name}: holds no kernel; take it out of ROUND_ALIKE in tests/check_layers.py")
    return problems


def names_of_file(text):
    """Yields (line, name, what) for each name at file scope in an anonymous namespace. `what` begins with the kind: an alias
    with its type, or a function with the types of its parameters, which tell overloads apart."""
    inside, lines = False, text.splitlines()
    for number, line in enumerate(lines, 1):
        if re.match(r"(namespace \{|\}\s*// namespace$)", line):
            inside = line.startswith("namespace")
        elif inside and re.match(r"\w", line) and not re.match(r"(template|static_assert|using namespace|namespace)\b", line):
            if alias := re.match(r"using (\w+) = (.*)", line):
                yield number, alias[1], "alias " + alias[2].split(";")[0]
            elif known := re.match(r"(?:class|struct|union|enum(?: class)?) (\w+)", line):
                yield number, known[1], "type"
            elif function := re.match(r"[^=({]*?\b(\w+)\(", line):
                parameters = " ".join(lines[number - 1:number + 8])[function.end():].split(")")[0]
                yield number, function[1], "function " + re.sub(r"\s*\b\w+\s*(=[^,]*)?(?=,|$)", "", parameters)
            elif value := re.match(r"[^=({]*?\b(\w+)(?:\[\w*\])?\s*[={;]", line):
                yield number, value[1], "value"


def check_names(source, folder):
    """Files of a target are compiled several at a time, as one: a name in two of them would clash."""
    problems, known, alone = [], collections.defaultdict(list), compiled_alone(folder)
    for path in sorted(set(folder.glob("**/*.cpp")) - alone):
        for number, name, what in names_of_file(path.read_text(encoding="utf-8")):
            for other, line, other_what in known[name]:
                overloads = what.startswith("function") and other_what.startswith("function") and what != other_what
                same_alias = what.startswith("alias") and what == other_what
                if other != path and not overloads and not same_alias:
                    problems.append(f"{path.relative_to(source)}:{number}: {name} is also in {other.relative_to(source)}:{line}, and files "
                                    f"of {folder.relative_to(source)} may be compiled together, as one (unity build): rename one of them")
            known[name].append((path, number, what))
    return problems


def check_types(source):
    """Types of one name in two files are one for the linker, which keeps one of their inline functions (one-definition rule)."""
    problems, known = [], {}
    for path in sorted([*source.glob("lib/**/*.?pp"), *source.glob("app/**/*.?pp")]):
        shared = re.sub(r"^namespace \{\n.*?^\}  // namespace$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
        for name in re.findall(r"^(?:class|struct|union|enum(?: class)?) (\w+)(?: final)?\s*(?::(?!:)[^;{]*)?\{", shared, re.M):
            if known.setdefault(name, path) != path:
                problems.append(f"{path.relative_to(source)}: {name} is also in {known[name].relative_to(source)}: rename one of them")
    return problems


# Words of our own, and what to write instead (docs/developer/style.md).
PRIVATE_WORDS = {r"the step's memory": "device memory", r"stretch(es)?": "range", r"comes? of": "results from", r"what (has become|becomes) of": "the outcome of",
                 r"has come to nothing": "was left out, or taken back", r"(go|gone) their own ways": "step by themselves",
                 r"beside": "next to, with, during, or besides"}


def check_words(source):
    """The library, the documents of users and developers, and the README use the field's words."""
    problems, pattern = [], re.compile("|".join(rf"(?P<w{i}>\b{word}\b)" for i, word in enumerate(PRIVATE_WORDS)), re.I)
    for path in sorted([*source.glob("lib/**/*.[ch]pp"), *source.glob("docs/**/*.md"), source / "README.md"]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.match(r"\s*//", line) and len(line) > MAX_COLUMNS:
                problems.append(f"{path.relative_to(source)}:{number}: a comment of {len(line)} characters (at most {MAX_COLUMNS})")
            for found in pattern.finditer(line):
                instead = list(PRIVATE_WORDS.values())[int(found.lastgroup[1:])]
                problems.append(f"{path.relative_to(source)}:{number}: '{found[0]}' (a word of our own); write {instead}")
    return problems


def check(source):
    problems = []
    for folder in sorted({*(f for f in source.glob("lib/*") if f.is_dir()), source / "app"}):
        problems += check_names(source, folder)
    problems += check_kernels(source) + check_types(source) + check_words(source)
    paths = sorted([*source.glob("lib/**/*.?pp"), *source.glob("app/**/*.?pp")])
    if not paths:
        problems.append(f"{source}: holds no lib/ and app/; name Lockstep's source folder")
    for path in [*paths, *sorted([*source.glob("tests/**/*.?pp"), *source.glob("tests/**/*_test.py")])]:
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > MAX_LINES:
            problems.append(f"{path.relative_to(source)}: {count} lines (at most {MAX_LINES}); split it")
    for path in paths:
        name = path.relative_to(source)
        inside = name.relative_to("lib") if name.parts[0] == "lib" else name
        folder = inside.parts[0]
        provider = "/".join(inside.parts[:2]) if len(inside.parts) > 2 else folder
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.suffix == ".hpp" and re.search(r"(?<!>\n)^inline [^;{}]*\{\n(?:(?!\}).*\n)*?.*KOKKOS_LAMBDA", "\n".join(lines), re.M):
            problems.append(f"{name}: a kernel in a function that several files compile: of those that are no templates nvcc keeps a part "
                            "for each file by itself, and the linker one of the others, which jumps to 0; put it into a source file")
        if folder not in MAY_USE:
            problems.append(f"{name}: the folder {folder} is not known; add it to MAY_USE in tests/check_layers.py")
            continue
        for number, line in enumerate(lines, 1):
            where = f"{name}:{number}"
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if include:
                kind, header = include.groups()
                for pattern, folders in ONLY_IN.items():
                    if re.fullmatch(pattern, header) and not {folder, provider} & folders:
                        problems.append(f"{where}: <{header}> belongs in {', '.join(sorted(folders))} only")
                used, *below = header.split("/")[:-1] or [header]
                if used in MAY_USE and kind == "<":
                    problems.append(f'{where}: write "{header}": it is ours')
                elif used in MAY_USE and used != folder and used not in MAY_USE[folder]:
                    problems.append(f"{where}: {folder} may not use {used} ({header})")
                elif used == folder != provider and below and below[0] not in {provider.split("/")[1]} | MAY_USE_BESIDE.get(provider, set()):
                    problems.append(f"{where}: {provider} may not use {used}/{below[0]} ({header})")
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line) and not {folder, provider} & CONDITIONALS:
                problems.append(f"{where}: '{line.strip()}' outside core, comm and the providers; make it another source file")
            for call, place in ((r"\bMPI_[A-Z]\w+\s*\(", "comm"), (r"\bH5[A-Z]\w*\s*\(", "io")):
                if re.search(call, line.split("//")[0]) and folder != place:
                    problems.append(f"{where}: such a call belongs in {place} only: {line.strip()}")
    return problems


def main():
    problems = check(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "all includes point the right way")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
