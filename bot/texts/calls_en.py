"""The English texts of refusals: what is wrong with a call, and what would have worked."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    # ---- what is wrong with a call
    "problem.missing": "“{param}” is missing.",
    "problem.unknown_option": "There is no option --{name}.",
    "problem.needs_value": "--{name} needs a value.",
    "problem.not_whole": "--{name} must be a whole number.",
    "problem.not_number": "--{name} must be a number.",
    "problem.range": "--{name} must be between {least} and {most}.",
    "problem.choice": "--{name} must be one of {choices}.",
    "problem.size": "--{name} must be a size such as 768x1024 or 3:2, 64 to 4096 each way.",
    "problem.job": "“{value}” is no job number.",
    "problem.too_long": "Your text has {length} characters; {limit} is the limit.",
    "problem.empty": "Your text is empty.",
    "problem.not_picture": "The attached file is no picture I can read (PNG, JPEG or WebP).",
    "problem.picture_bytes": "The attached picture has {size} MB; {limit} MB is the limit.",
    "problem.picture_pixels": "The attached picture has too many pixels; {limit} megapixels is the limit.",
    "problem.picture_unreadable": "The attached file could not be downloaded. Please send it again.",
    "problem.near_option": "There is no option --{name}. Did you mean --{near}?",
    "problem.choice_word": "“{value}” is not one of these: {choices}.",
    "problem.left_over": "/{command} can do nothing with “{text}”.",
    "problem.too_many_pictures": "You attached {count} pictures; /{command} takes {most} at most.",
    "problem.not_text": "{name} is no text I can read.",
    "problem.text_bytes": "{name} is larger than {limit} kB, the limit for texts.",
    "problem.text_too_long": "The attached text has {length} characters; {limit} is the limit.",
    # ---- what would have worked
    "hint.did_you_mean": "Did you mean {names}?",
    "hint.near_model": "There is no model “{word}”, so the word is part of the prompt. Did you mean {model}?",
    "hint.models": "There are: {names}.",
    "hint.machines": "The machines are: {names}.",
    "hint.help": "/help lists what there is.",
    "hint.able": "These can: {names}.",
    # ---- what a model cannot do
    "refused.not_capable": "{model} {unable}.{hint}",
    "unable.text-to-image": "cannot draw pictures",
    "unable.image-to-image": "cannot start from a picture",
    "unable.text-to-text": "cannot write texts",
    "unable.vision": "cannot see pictures",
    "unable.upscale": "cannot make pictures larger",
    # ---- what somebody gets who chose nothing
    "settings.usual_model": "{model}, the usual one",
    "settings.usual_size": "the model's own",
    "settings.usual_style": "none",
    "settings.usual_language": "{code}, as your app says",
    "settings.no_model": "none here",
}
