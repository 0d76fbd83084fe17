"""How good answers are: folders of notes with questions and judgements, scored as `vade eval` scores them."""
