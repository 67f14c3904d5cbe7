from hypothesis import settings

# the first example of a test pays for imports and tokenizers, which says nothing about the code under test
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
