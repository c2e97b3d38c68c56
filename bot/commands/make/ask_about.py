"""The menu entry "Ask about this": a form for the question, or an answer if there are files.

A form cannot carry files, so a message's attachments are examined without one.
"""

from bot.commands.call.context import Call, CallRefused, Context
from bot.commands.call.files import enclosed
from bot.commands.call.forms import FORM_TEXT_MOST
from bot.commands.call.talks import quoted_in
from bot.commands.make import ask
from bot.core.answers import Answer, Asked
from bot.core.command import Command
from bot.core.content import Content, Form, FormField
from bot.texts.catalogue import word

COMMAND = Command(
    name="ask-about",
    help="menu.ask_about",
    menu="menu.ask_about",
    hidden=True,
    opens_form=True,
    takes=ask.COMMAND.takes,
)


async def handle(context: Context, call: Call) -> Answer:
    if call.invocation.files:
        return await _at_once(context, call)
    quoted = quoted_in(call)[:FORM_TEXT_MOST]
    if not quoted:
        raise CallRefused("refused.nothing_to_ask")
    language = call.language
    question = word(language, "form.question")
    about = word(language, "form.about")
    form = Form(
        command="ask",
        title=word(language, "form.ask_about"),
        fields=(
            FormField(name="prompt", label=question, required=True),
            FormField(name="about", label=about, value=quoted, long=True, required=True),
        ),
        send=word(language, "form.send"),
    )
    return Asked(form=form, content=Content(body=(question,)))


async def _at_once(context: Context, call: Call) -> Answer:
    """Answer at once what the message's files and words are about."""
    given = await enclosed(context, call, ask.QUESTION_LIMIT)
    about = "\n\n".join(each for each in (given.words, quoted_in(call)) if each)
    key = "ask_about.question" if about or given.said else "describe.question"
    question = ask.about(about, word(call.language, key))
    turn = ask.asked(question, given.shown, given.said)
    return await ask.ask(context, call, None, turn, cut=given.cut)
