"""The order of lines by what people used lately."""
