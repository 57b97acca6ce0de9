"""Designated initialisers in templates name every member, because nvcc drops designators of dependent types.

nvcc 13.0 hands g++ a list by position where the type depends on a template's parameters: of members a, b and c,
`{.a = 1, .c = 3}` gives 3 to b, without an error. So wherever nvcc may meet one (in kernels, and in templates and
generic lambdas of any file), the members that an initialiser names must be all those of a struct, in their order.
"""
# ctest: PROCESSORS 1

import re

import pytest
from test_layering import ROOT, tracked

DESIGNATED = re.compile(r"\{\s*\.\s*[A-Za-z_]\w*\s*(?:=(?!=)|\{)")


def code_only(text):
    """The text without comments and preprocessor lines, its strings and characters empty; lines stay where they are."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
                         r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
    return pattern.sub(lambda match: ('""' if match[0][-1] in "\"'" else " ") + "\n" * match[0].count("\n"), text)


def closing(text, start):
    """The place of the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def pieces(text, separator):
    """The text parted at separators outside of brackets of any kind."""
    parts, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        depth += 1 if character in "({[" else -1 if character in ")}]" else 0
        if character == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]


def without_arguments(text):
    """The text without the arguments of templates."""
    while (shorter := re.sub(r"(?<=\w)\s*<[^<>;{}]*>", "", text)) != text:
        text = shorter
    return text


def members(body):
    """The names of the data members that the body of a struct declares, in their order."""
    found = []
    # functions with bodies end without a semicolon
    body = re.sub(r"\b(public|private|protected)\s*:", "", without_arguments(body))
    i, statement = 0, ""
    while i < len(body):
        if body[i] == "{":
            end = closing(body, i)
            is_function = re.search(r"\)\s*(const|noexcept|override|mutable|->[\w:&*\s]+|:[^:].*)?\s*$", statement, re.S)
            if is_function and "=" not in statement.split("(")[0] or re.match(r"\s*(struct|class|enum|union)\b", statement):
                following = re.match(r"\s*;", body[end + 1:])
                statement, i = "", end + 1 + (following.end() if following else 0)
                continue
            statement += "{}"
            i = end + 1
        elif body[i] == ";":
            found += declared(statement)
            statement, i = "", i + 1
        else:
            statement += body[i]
            i += 1
    return found


def declared(statement):
    """The members that one declaration declares."""
    statement = " ".join(statement.split())
    if not statement or re.match(r"(static|using|friend|template|typedef|enum|struct|class|union|static_assert|KOKKOS_)\b", statement) \
            or "operator" in statement:
        return []
    names = []
    for part in pieces(statement, ","):
        part = re.split(r"=|\{", part)[0]
        if "(" in part:  # a function, or a pointer to one
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", part)
            if not pointer:
                return []
            names.append(pointer[1])
            continue
        name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part.strip())
        names += [name[1]] if name else []
    return names


def structs(text):
    """The members of every struct that the text defines, as tuples."""
    for match in re.finditer(r"\b(?:struct|class)\s+(?:\w+\s*)?(?:final\s*)?(?::\s*[^;{()]*)?\{", text):
        start = match.end() - 1
        yield tuple(members(text[start + 1:closing(text, start)]))


def designated(text):
    """(place, names) of every designated initialiser."""
    for match in DESIGNATED.finditer(text):
        start = match.start()
        names = [re.match(r"\s*\.\s*(\w+)", part) for part in pieces(text[start + 1:closing(text, start)], ",")]
        yield start, tuple(name[1] for name in names if name)


def in_template(text, place):
    """Whether a template or a generic lambda is open at this place."""
    begin, opened = 0, []
    for i in range(place):
        if text[i] == "{":
            header = text[begin:i]
            opened.append(bool(re.search(r"\btemplate\s*<|\]\s*(<[^>]*>\s*)?\([^()]*\bauto\b[^()]*\)[^()]*$", header)))
        if text[i] == "}" and opened:
            opened.pop()
        # (the header of a struct in a list stays part of what surrounds it)
        if text[i] in "{};":
            begin = i + 1
    return any(opened)


def violations(name, text, known):
    """The initialisers of file `name` that name some members of a struct only; `known`: the members of each."""
    found = []
    for place, names in designated(text):
        if names not in known and (name.startswith("kernels/") or in_template(text, place)):
            found.append(f"{name}:{text.count(chr(10), 0, place) + 1}: names {', '.join(names)}")
    return found


def test_templates_name_every_member():
    texts = {name: code_only((ROOT / name).read_text()) for name in tracked(".cpp", ".hpp")}
    known = {members for text in texts.values() for members in structs(text)}
    assert sum(len(list(designated(text))) for text in texts.values()) > 100
    found = [violation for name, text in texts.items() for violation in violations(name, text, known)]
    assert not found, "no struct has these members, and no others:\n" + "\n".join(found)


STRUCT = """
template <class T>
struct Term {
  enum class Kind { one, two };
  static constexpr int kOne = 1;
  T first = 0, second = 0;  // of one, and of two
  std::array<std::pair<int, int>, 2> pairs{};
  T (*function)(int, T) = nullptr;
  const T* numbers[3] = {};
  KOKKOS_FUNCTION T sum(int count) const { return first + second; }
  bool last() const;
};
"""
WHOLE = ".first = 1, .second = f({1, 2}, 3), .pairs = {}, .function = g, .numbers = {nullptr, p}"


@pytest.mark.parametrize("name, code, ok", [
    ("src/x.cpp", f"template <class T>\nvoid f(T x) {{ Term<T> t = {{{WHOLE}}}; }}", True),
    ("src/x.cpp", "template <class T>\nvoid f(T x) { Term<T> t = {.first = 1, .pairs = {}}; }", False),
    ("src/x.cpp", "template <class T>\nvoid f(T x) { if (x) { g({.first = 1}); } }", False),
    ("src/x.cpp", "template <class T>\nstruct A { void f() { g({.first{1}}); } };", False),
    ("src/x.cpp", "void f() { with(1, [&](auto x) { g({.first = 1}); }); }", False),
    ("src/x.cpp", "void f() { with(1, [&](int x) { g({.first = 1}); }); }", True),
    ("src/x.cpp", "template <class T>\nvoid g(T x) {}\nvoid f() { g({.first = 1}); }", True),
    ("kernels/x.hpp", "inline void f() { g({.first = 1}); }", False),
    ("kernels/x.hpp", f"inline void f() {{ g({{{WHOLE}}}); }}", True),
    ("kernels/x.hpp", '// g({.first = 1})\nconst char* text = "{.first = 1}";', True),
])
def test_a_member_left_out_is_seen(name, code, ok):
    assert (not violations(name, code_only(code), set(structs(code_only(STRUCT))))) == ok
