"""The English sentences about unusable attachments: what they are, what to do instead."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "problem.attached": "{told}",
    "problem.file_alone": "What would you like to know about {names}? Reply to it with your question.",
    "problem.too_many_pictures": "You attached {count} pictures; /{command} takes {most} at most.",
    "problem.too_many_texts": "You attached {count} text files; /{command} takes {most} at most.",
    "refused.picture_or_job": "Is it about the picture you attached or about job {job}? Please choose one.",
    "refused.cannot_see": "No model here can see pictures. /models lists what each of them can do.",
    "album.too_late": (
        "A picture of your album arrived after I had begun on job {job}, so it isn't part "
        "of the answer. Reply to the answer with it, or send all pictures together once "
        "more."
    ),
    "album.late": (
        "This picture arrived after the rest of its album. Please send all pictures "
        "together once more."
    ),
    "album.partial": (
        "In groups Telegram shows me only one picture of an album. Send the pictures to me "
        "in a private chat instead."
    ),
    "attached.picture": (
        "/{command} takes no pictures{names}. Use /image to start from a picture, or send it with a"
        " question."
    ),
    "attached.text": "/{command} takes no text files{names}. Send a text file with a question about it.",
    "attached.document": (
        "I can't read PDF or office files yet{names}. Paste the text into your question, or send it"
        " as a .txt file."
    ),
    "attached.film": "I can't watch videos yet{names}. Send a screenshot of the moment you mean.",
    "attached.round-video": (
        "I can't watch video messages yet. Please type your question, or send a photo."
    ),
    "attached.animation": "I can't watch animations yet{names}. Send a screenshot instead.",
    "attached.voice": "I can't listen to voice messages yet. Please type your message.",
    "attached.audio": (
        "I can't listen to audio files yet{names}. If you have the words in writing, send those."
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
        "Discord doesn't show me the message you replied to. Open the menu of that message, choose"
        " Apps and then Ask about this; or ask without a reply."
    ),
    "attached.other": (
        "I can't read this kind of attachment{names}. I take pictures (PNG, JPEG or WebP) and text"
        " files."
    ),
}
