"""The menu entry "Ask about this": a form for the question, or at once for a picture alone."""

from bot.commands import describe
from bot.commands.context import Answer, Asked, Call, CallRefused, Context
from bot.commands.edit import FORM_TEXT_MOST
from bot.commands.table import Command
from bot.platforms.base import Content, Form, FormField
from bot.texts import word

COMMAND = Command(
    name="ask-about",
    help="menu.ask_about",
    menu="menu.ask_about",
    hidden=True,
    opens_form=True,
)


async def handle(context: Context, call: Call) -> Answer:
    quoted = call.invocation.quoted[:FORM_TEXT_MOST]
    if not quoted and call.invocation.files:
        return await describe.handle(context, call)
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
