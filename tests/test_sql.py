"""The SQL of the application: named in one place each, in the dialect that both engines share."""

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import ModuleType

from bot.app.setup import MIGRATIONS
from queueing.store.engines import open_database
from queueing.store.postgres.connection import STATEMENTS as POSTGRES_STATEMENTS
from queueing.store.postgres.connection import numbered
from queueing.store.sql.database import Connection
from tests.fakes.programs.postgres_server import PostgresServer
from tests.test_house import MODULES, ROOT

ENGINES = (
    "queueing/store/sqlite/",
    "queueing/store/postgres/",
    "queueing/store/sql/database.py",
    "queueing/store/sql/migrations.py",
    "queueing/store/maintenance.py",
)
"""What stands in an engine's folder may use its words; versions of a schema and whole tables are both's."""

NAMES = ("sql.py", "queries.py")
SQL = re.compile(
    r"\s*(SELECT\b|INSERT\b|UPDATE \w+ SET|DELETE FROM|REPLACE INTO|WITH (RECURSIVE )?\w+ (\([^)]+\) )?AS|CREATE (TABLE|\w* ?INDEX"
    r"|TRIGGER|VIEW)|DROP TABLE|ALTER TABLE|PRAGMA\b|BEGIN\b|COMMIT\b|ROLLBACK\b|SAVEPOINT\b)"
)
WORDS = re.compile(
    "SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|CREATE|DROP|ALTER|PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT"
)
FORBIDDEN = {
    r"\bINSERT OR\b|\bREPLACE INTO\b": "ON CONFLICT (…) DO …",
    r"\bINSERT INTO \w+ (VALUES|SELECT)": "the columns by name: their order is each engine's own",
    r"\browid\b|\b_rowid_\b|\bAUTOINCREMENT\b|\bsqlite_\w+": "a key of the table",
    r"\bjson_\w+|->": "plain columns, or an engine's own statement",
    r"\b(strftime|datetime|date|time|julianday|unixepoch)\(": "UNIX seconds as a parameter",
    r"\b(ifnull|group_concat|total|printf|instr|hex|typeof|changes)\(": "a function that both have",
    r"\b(last_insert_rowid|total_changes)\b": "RETURNING",
    r"\b(max|min)\([^()]*,": "CASE: there max of several is greatest",
    r"\b(GLOB|LIKE|COLLATE|REGEXP|MATCH)\b": "= or a comparison: letters compare differently",
    r"\bINDEXED\b|\bPRAGMA\b|\bSTRICT\b|\bWITHOUT ROWID\b|\bIMMEDIATE\b": "the engine's folder",
    r"\bLIMIT -1\b": "no limit",
    r"==|\bIS (?!NULL\b|NOT NULL\b|NOT DISTINCT\b|DISTINCT\b)": "= or IS NOT DISTINCT FROM",
    r"(?<![\".])\buser\b(?!\")": 'quotes: user alone is whoever is connected ("user")',
    r"\"(?!user\")\w+\"(?!\w)": "single quotes around a text",
    r"\bNOT (?!NULL\b|EXISTS\b|IN\b|BETWEEN\b|DISTINCT\b)\w": "= 0: a number is no truth there",
    r"\b(WHERE|AND|OR|WHEN) (?!NOT\b)[a-z_.]+( AND\b| OR\b| THEN\b| ORDER\b| LIMIT\b|$)": "= 1",
    r"DO UPDATE SET\b.*(=|THEN|ELSE|\() (?!CASE\b)[a-z_]+\b(?!\.)": "the table's name before the column",
    r"\$\d|%s|(?<!:):\w": "? for a value",
}


def strings(file: Path) -> Iterator[str]:
    """Yield the texts of a module except its docstrings; of a text with names in it, its beginning.

    A module without any word that begins a statement has none.
    """
    text = file.read_text(encoding="utf-8")
    if not WORDS.search(text):
        return
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def is_engine(file: Path) -> bool:
    return str(file.relative_to(ROOT)).startswith(ENGINES)


def named(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the statements a module names."""
    for name, value in vars(module).items():
        if isinstance(value, str):
            texts = [value]
        elif isinstance(value, Mapping):
            texts = [each for each in value.values() if isinstance(each, str)]
        else:
            texts = (
                [each for each in value if isinstance(each, str)]
                if isinstance(value, tuple)
                else []
            )
        for number, text in enumerate(texts):
            if SQL.match(text) and not name.startswith("__"):
                yield f"{module.__name__}.{name}[{number}]", text


def modules() -> Iterator[ModuleType]:
    for file in MODULES:
        if file.name in NAMES and not is_engine(file):
            yield import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


STATEMENTS = dict(statement for module in modules() for statement in named(module))


def faults(text: str) -> list[str]:
    """Return what to write instead of words that only one engine would understand."""
    plain = " ".join(re.sub(r"'[^']*'", "''", text).split())
    found = [instead for pattern, instead in FORBIDDEN.items() if re.search(pattern, plain)]
    return found + ["a name after a query in FROM"] * (not _subqueries_have_names(plain))


def _subqueries_have_names(text: str) -> bool:
    for begin in re.finditer(r"\b(?:FROM|JOIN) \(", text):
        depth, at = 1, begin.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if not re.match(r" AS \w+", text[at:]):
            return False
    return True


def test_sql_stands_where_it_is_named() -> None:
    """A statement in a closure would be overlooked by a person who adds a second engine."""
    elsewhere = {
        str(file.relative_to(ROOT)): found
        for file in MODULES
        if file.name not in NAMES and not is_engine(file)
        if (found := [text for text in strings(file) if SQL.match(text)])
    }
    assert elsewhere == {}


def test_statements_are_in_the_shared_dialect() -> None:
    """The other engine would refuse them, or silently answer something else."""
    assert len(STATEMENTS) > 80
    assert {name: found for name, text in STATEMENTS.items() if (found := faults(text))} == {}


async def test_every_statement_fits_the_schema(tmp_path: Path) -> None:
    """A misspelt column would only fail when a person first needs it."""
    database = await open_database(f"sqlite:///{tmp_path}/usher.db", migrations=(MIGRATIONS,))

    def explain(connection: Connection) -> dict[str, int]:
        return {
            name: len(connection.execute(f"EXPLAIN {text}", (None,) * text.count("?")).fetchall())
            for name, text in STATEMENTS.items()
        }

    try:
        assert all((await database.read(explain)).values())
    finally:
        await database.aclose()


def test_every_statement_is_understood_by_the_other_engine(
    postgres: PostgresServer, postgres_template: str
) -> None:
    """A word that no pattern above knows would fail when a person first needs the statement."""
    texts = dict(STATEMENTS)
    texts |= {
        f"both.{field}": text
        for field, text in asdict(POSTGRES_STATEMENTS).items()
        if SQL.match(str(text))
    }
    with closing(postgres.connect(postgres_template)) as connection:
        for number, (name, text) in enumerate(texts.items()):
            try:
                connection.execute(f"PREPARE s{number} AS {numbered(text)}")
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error
    assert numbered("SELECT '?', \"?\", ? -- ?\n, ?") == "SELECT '?', \"?\", $1 -- ?\n, $2"


def test_what_one_engine_alone_understands_is_found() -> None:
    """A pattern that matches nothing protects nothing."""
    examples = (
        "INSERT OR REPLACE INTO notes (name) VALUES (?)",
        "INSERT INTO notes VALUES (?, ?)",
        "SELECT rowid FROM notes",
        "SELECT json_extract(value, '$.a') FROM notes",
        "SELECT max(tries, 1) FROM unreachable",
        "SELECT user FROM people",
        "SELECT 1 FROM unreachable WHERE NOT given_up",
        "SELECT 1 FROM unreachable WHERE given_up AND tries > 1",
        "SELECT 1 FROM jobs WHERE owner IS ?",
        'SELECT 1 FROM jobs WHERE owner = "ada"',
        "SELECT a FROM (SELECT id AS a FROM jobs)",
        "SELECT id FROM jobs INDEXED BY jobs_open",
        "INSERT INTO t (a) VALUES (?) ON CONFLICT (a) DO UPDATE SET n = n + 1",
        "SELECT 1 FROM jobs WHERE owner LIKE ?",
        "SELECT id FROM jobs WHERE owner = :owner",
    )
    assert [text for text in examples if not faults(text)] == []
