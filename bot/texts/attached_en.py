"""The English sentences about unusable attachments: what they are, what to do instead."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "problem.attached": "{told}",
    "problem.file_alone": "What would you like to know about {names}? Reply to it with your question.",
    "problem.too_many_pictures": "You attached {count:picture|pictures}; /{command} takes at most {most}.",
    "problem.too_many_texts": "You attached {count:text file|text files}; /{command} takes at most {most}.",
    "refused.picture_or_job": "Do you mean the picture you attached or job {job}? Please choose one.",
    "refused.cannot_see": "No model here can see pictures. /models lists what each of them can do.",
    "album.too_late": (
        "A part of your album arrived after I had started job {job}, so it isn't part "
        "of the answer. Reply to the answer with it, or send everything together again."
    ),
    "album.late": (
        "This arrived after the rest of its album. Please send everything together again."
    ),
    "album.partial": (
        "In groups, Telegram shows me only one part of an album. Send it to me in a private chat"
        " instead."
    ),
    "attached.picture": (
        "/{command} doesn't take pictures{names}. Use /image to start from a picture, or send it with a"
        " question."
    ),
    "attached.text": "/{command} doesn't take text files{names}. Send a text file with a question about it.",
    "attached.document": (
        "/{command} doesn't take PDF or office files{names}. Send one with a question about it."
    ),
    "attached.film": "/{command} doesn't take videos{names}. Send one with a question about it.",
    "attached.round-video": (
        "/{command} doesn't take video messages. Send one without a command, and I'll answer what you"
        " say in it."
    ),
    "attached.animation": (
        "/{command} doesn't take animations{names}. Send one with a question about it."
    ),
    "attached.voice": (
        "/{command} doesn't take voice messages. Send one without a command, and I'll answer what you"
        " say in it."
    ),
    "attached.audio": (
        "/{command} doesn't take sound files{names}. Send one with a question about what is said in it."
    ),
    "attached.sticker": (
        "I can't do anything with stickers, I'm afraid. Send me a question or a photo; /help shows"
        " what I can do."
    ),
    "attached.archive": (
        "I can't open archives{names}. Send the pictures or text files in them one by one."
    ),
    "attached.poll": "I can't take part in polls. Please type your question.",
    "attached.place": "I can't look up locations. Please type your question about the place.",
    "attached.contact": "I can't do anything with contacts. Please type your question.",
    "attached.unseen": (
        "Discord doesn't show me the message you replied to. Open that message's menu and choose"
        " Apps, then Ask about this; or ask without replying."
    ),
    "attached.other": (
        "I can't do anything with this kind of attachment{names}. I take pictures, films, recordings,"
        " PDF, office and text files."
    ),
}
