"""Real engines of guided generation behind one protocol, and what drives them: walks, texts, whole languages."""
