"""The English sentences about unusable attachments: what they are, what to do instead."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "problem.attached": "{told}",
    "problem.file_alone": "What would you like to know about {names}? Reply to it with your question.",
    "problem.too_many_pictures": "You attached {count} pictures; /{command} takes at most {most}.",
    "problem.too_many_texts": "You attached {count} text files; /{command} takes at most {most}.",
    "refused.picture_or_job": "Do you mean the picture you attached or job {job}? Please choose one.",
    "refused.cannot_see": "No model here can see pictures. /models lists what each of them can do.",
    "album.too_late": (
        "A picture from your album arrived after I had started job {job}, so it isn't part "
        "of the answer. Reply to the answer with it, or send all the pictures together "
        "again."
    ),
    "album.late": (
        "This picture arrived after the rest of its album. Please send all the "
        "pictures together again."
    ),
    "album.partial": (
        "In groups, Telegram shows me only one picture of an album. Send the pictures to me "
        "in a private chat instead."
    ),
    "attached.picture": (
        "/{command} doesn't take pictures{names}. Use /image to start from a picture, or send it with a"
        " question."
    ),
    "attached.text": "/{command} doesn't take text files{names}. Send a text file with a question about it.",
    "attached.document": (
        "I can't read PDF or office files yet{names}. Paste the text into your question, or send it"
        " as a .txt file."
    ),
    "attached.film": "I can't watch videos yet{names}. Send a screenshot of the moment you mean.",
    "attached.round-video": (
        "/{command} doesn't take video messages. Send one without a command, and I'll answer what you"
        " say in it."
    ),
    "attached.animation": "I can't watch animations yet{names}. Send a screenshot instead.",
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
        "I can't read this kind of attachment{names}. I can read pictures (PNG, JPEG or WebP) and text"
        " files."
    ),
}
