"""How each system is used: as its own guide says a conversation is kept and gone on with."""
