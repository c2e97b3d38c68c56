// Writes the command line of what was chosen beside the text field, as a person would type it.

const WORD = /^\p{L}+$/u; // cannot be a job's number, and a model's name only if it is a known one
const AS_TYPED = /(?:^|\s)(?:--|—|–)|[ \t]{2}/; // what a command line does not keep in a prompt

/**
 * Return the line of a command with a model ("" for the usual one) and [name, value] options.
 * A text that a command line could read in another way is put behind `--`, which keeps it as it is.
 */
export function commandLine({ command, model, options, text, names }) {
  const written = options.map(([name, value]) => `--${name} ${quoted(value)}`);
  const [first] = text.split(/\s/, 1);
  const plain = WORD.test(first) && !names.has(first.toLowerCase()) && !AS_TYPED.test(text);
  if (plain && model === quoted(model)) return [`/${command}`, model, text, ...written].filter(Boolean).join(" ");
  if (model) written.unshift(`--model ${quoted(model)}`);
  return [`/${command}`, ...written, ...(text ? ["--", text] : [])].join(" ");
}

function quoted(value) {
  if (/^[^\s"“”]*$/.test(value)) return value;
  return value.includes('"') ? `“${value.replaceAll("”", '"')}”` : `"${value}"`;
}
