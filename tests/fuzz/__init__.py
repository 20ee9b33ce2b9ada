"""Coverage-guided fuzzing: targets, the harness that feeds them, and the driver `run.py`.

A target is a module with three names: `check(data)`, which raises if the package does wrong by
these bytes; `seeds()`, inputs to begin with; and `mutate(data, most, chance, plain)`, which gives
a mutant of at most so many bytes, `plain` being the fuzzer's own way to make one. Targets need no
fuzzer: `house/test_fuzz_corpus.py` runs them on every input that is kept under `corpus` and
`crashes`.
"""
