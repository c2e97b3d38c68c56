"""The English texts of refusals: what is wrong with a call, and what would have worked."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    # ---- what is wrong with a call
    "problem.missing": "“{param}” is missing.",
    "problem.unknown_option": "There's no option --{name}.",
    "problem.needs_value": "--{name} needs a value.",
    "problem.not_whole": "--{name} must be a whole number.",
    "problem.not_number": "--{name} must be a number.",
    "problem.range": "--{name} must be between {least} and {most}.",
    "problem.choice": "--{name} must be one of {choices}.",
    "problem.size": "--{name} must be a size such as 768x1024 or 3:2, 64 to 4096 each way.",
    "problem.job": "“{value}” isn't a job number.",
    "problem.too_long": "Your text has {length} characters; the limit is {limit}.",
    "problem.empty": "Your text is empty.",
    "problem.not_picture": "The attached file isn't a picture I can read (PNG, JPEG or WebP).",
    "problem.picture_bytes": "The attached picture is {size} MB; the limit is {limit} MB.",
    "problem.picture_pixels": "The attached picture is too large; the limit is {limit} megapixels.",
    "problem.picture_unreadable": "The attached file couldn't be downloaded. Please send it again.",
    "problem.near_option": "There's no option --{name}. Did you mean --{near}?",
    "problem.choice_word": "“{value}” isn't one of these: {choices}.",
    "problem.left_over": "/{command} doesn't know what to do with “{text}”.",
    "problem.not_text": "{name} isn't a text file I can read.",
    "problem.text_bytes": "{name} is larger than {limit} kB, the limit for text files.",
    "problem.text_too_long": "The attached text has {length} characters; the limit is {limit}.",
    # ---- what would have worked
    "hint.did_you_mean": "Did you mean {names}?",
    "hint.near_model": "There's no model “{word}”, so the word became part of the prompt. Did you mean {model}?",
    "hint.models": "Available: {names}.",
    "hint.machines": "Machines: {names}.",
    "hint.help": "/help lists all commands.",
    "hint.able": "These can: {names}.",
    # ---- what a model cannot do
    "refused.not_capable": "{model} {unable}.{hint}",
    "unable.text-to-image": "can't draw pictures",
    "unable.image-to-image": "can't start from a picture",
    "unable.text-to-text": "can't write text",
    "unable.vision": "can't see pictures",
    "unable.upscale": "can't upscale pictures",
    "unable.embedding": "can't make embeddings",
    "unable.image-embedding": "can't make embeddings of pictures",
    # ---- defaults of people who chose none
    "settings.usual_model": "{model} (default)",
    "settings.usual_size": "the model's default",
    "settings.usual_style": "none",
    "settings.usual_language": "{code} (from your app)",
    "settings.no_model": "none here",
}
