"""What is done with films: cleaned, inspected, cut into pictures, re-encoded. Needs PyAV."""
