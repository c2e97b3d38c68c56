"""The German sentences about how much of the cards people use."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "settings.gpu": "GPU-Zeit",
    "gpu.used": "heute {used} min verbraucht",
    "gpu.used_of": "heute {used} von {limit} min verbraucht",
    "gpu.held": " (weitere {held} min sind für deine offenen Aufträge vorgemerkt)",
    "gpu.cost": "Braucht etwa {cost} deiner GPU-Minuten.",
    "refused.gpu": (
        "Deine GPU-Zeit für heute ist aufgebraucht: {used} von {limit} min verbraucht, {held} min"
        " für deine offenen Aufträge vorgemerkt. Weiter geht es {moment:um }."
    ),
    "limit.gpu": "{shown} · GPU heute: {used} von {limit} min",
    "limit.gpu_free": "{shown} · GPU heute: {used} min",
    "limit.today": "Heute verbrauchte GPU-Minuten:",
    "limit.unused": "Heute hat noch niemand eine GPU benutzt.",
    "param.today": "zeigen, wer heute wie viele GPU-Minuten verbraucht hat",
    "param.later": "erst ausführen, wenn sonst nichts wartet",
    "param.by": "ebenso, aber bis zu dieser Uhrzeit fertig (--by 8:00)",
    "refused.by": "„{text}“ verstehe ich nicht als Uhrzeit. Schreib sie so: --by 8:00",
    "param.gpu_minutes": "GPU-Minuten pro Tag oder „none“ für unbegrenzt",
}
