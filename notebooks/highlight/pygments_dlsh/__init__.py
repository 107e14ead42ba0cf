"""Pygments lexer of the language of dlsh. `dlsh kernel install` fills in the names, from the tables of dlsh."""
import re

from pygments.lexer import Lexer, RegexLexer, words
from pygments.lexers.c_cpp import CLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

__all__ = ["DlshLexer"]

NAMES = {}
CONSTANTS = {"true", "false", "none"}
NAME = r"[A-Za-z_]\w*"


class Plain(RegexLexer):
    """The language without C; a word is a command only where a statement begins."""

    common = [
        (r"#.*", Comment.Single),
        (r'"(\\.|[^"\\\n])*"?', String.Double),
        (r"'(\\.|[^'\\\n])*'?", String.Single),
        (r"(\d+\.\d*|\.\d+|\d+)[eE][+-]?\d+|\d+\.\d+|\.\d+|\d+\.(?![.\w])", Number.Float),
        (r"0[xX][0-9a-fA-F]+|0[bB][01]+", Number.Hex),
        (r"\d+", Number.Integer),
        (words(sorted(CONSTANTS), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
        (words(sorted(set(NAMES["keywords"]) - CONSTANTS), prefix=r"(?<![\w.])", suffix=r"\b"), Keyword),
        (words(NAMES["dtypes"], prefix=r"(?<![\w.])", suffix=r"\b"), Keyword.Type),
        (rf"({NAME})(?==(?!=))", Name.Attribute),
        (words(NAMES["functions"], prefix=r"\b", suffix=r"(?=\()"), Name.Builtin),
        (words(NAMES["layers"], prefix=r"(?:(?<=->)|(?<=-> ))", suffix=r"\b(?!\()"), Name.Function),
        (NAME, Name),
        (r"->|\*\*|//|==|!=|<=|>=|<<|>>|&&|\|\||[-+*/%@!~&|^?:<>=]|\.\.\.", Operator),
        (r"[()\[\].,]", Punctuation),
        (r"[^\S\n]+", Whitespace),
        (r".", Text),
    ]
    tokens = {
        "root": [
            (r"\s+", Whitespace),
            (r"[;{}]", Punctuation),
            (r"(%%?\w+)", Name.Decorator, "rest"),
            (words(sorted(set(NAMES["keywords"]) - CONSTANTS), suffix=r"\b"), Keyword, "rest"),
            (words(NAMES["commands"], suffix=r"\b(?![\w.([]|\s*([-+*/]?=(?!=)|,))"), Keyword.Pseudo, "rest"),  # a colour in JupyterLab, too
            (words(NAMES["layers"], suffix=r"\b(?![\w.([]|\s*([-+*/]?=(?!=)|,))"), Name.Function, "rest"),
            (rf"{NAME}:(?=\s+[A-Za-z])", Name.Label),
            (r"(?=.)", Text, "rest"),
        ],
        "rest": [(r"\n", Whitespace, "#pop"), (r"[;{}]", Punctuation, "#pop"), *common],
    }


def end_of_block(text, at):
    """The place behind the } that closes the block opened before `at`; strings, characters and comments of C are passed over."""
    depth = 1
    for m in re.compile(r'/\*.*?(?:\*/|\Z)|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[{}]', re.S).finditer(text, at):
        depth += {"{": 1, "}": -1}.get(m[0], 0)
        if not depth:
            return m.end()
    return len(text)


class DlshLexer(Lexer):
    """Splits a text into the language itself, C blocks and prototypes, and has each lexed by its own lexer."""

    name = "dlsh"
    aliases = ["dlsh"]
    filenames = ["*.dlsh"]
    mimetypes = ["text/x-dlsh"]
    starts = re.compile(r"^(?P<cell>%%c\b[^\n]*\n)|^(?P<block>[^\S\n]*(?:CUDA|C)\b[^\n{}#]*\{)"
                        r"|^(?P<extern>[^\S\n]*extern\b(?:[^\S\n]+\"[^\"\n]*\")?)", re.M)

    def parts(self, text):
        """Pairs of a start of C, as text of the language, and where the C behind it ends."""
        at = 0
        while m := self.starts.search(text, at):
            if m["cell"]:
                end = len(text)
            elif m["block"]:
                end = end_of_block(text, m.end()) - 1
                end += end < 0 or text[end:end + 1] != "}"
            else:
                braces = re.compile(r"\s*\{").match(text, m.end())
                semicolon = text.find(";", m.end())
                end = end_of_block(text, braces.end()) if braces else semicolon + 1 or len(text)
            yield at, m.end(), end
            at = end
        yield at, len(text), len(text)

    def get_tokens_unprocessed(self, text):
        for start, c, end in self.parts(text):
            for at, kind, value in Plain(stripnl=False, ensurenl=False).get_tokens_unprocessed(text[start:c]):
                yield start + at, kind, value
            for at, kind, value in CLexer(stripnl=False, ensurenl=False).get_tokens_unprocessed(text[c:end]):
                yield c + at, kind, value
