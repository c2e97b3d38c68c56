"""From a person's wish to an accepted job or a refusal; knows neither chats nor HTTP."""
