"""What is done with sounds: given the forms that servers, chats and programs take. Needs PyAV."""
