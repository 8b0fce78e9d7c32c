"""One session: listen, admit, think, speak. See `conversation.Conversation`."""
