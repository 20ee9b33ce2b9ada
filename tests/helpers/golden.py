"""The golden files, which tests only ever read, and what is recorded of them."""

import json
from pathlib import Path

from reference import Fields, Key

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "expectations.json").read_text())


def golden_bytes(name: str) -> bytes:
    return (GOLDEN / f"{name}.bloom").read_bytes()


def golden_keys(name: str) -> list[Key]:
    edge = [bytes.fromhex(k["hex"]) if isinstance(k, dict) else k for k in EXPECTED["edge_keys"]]
    number = EXPECTED["files"][name]["keys"]
    return [*edge, *(f"key-{i}" for i in range(number - len(edge)))][:number]


def golden_fields(name: str) -> Fields:
    recorded = EXPECTED["files"][name]["fields"]
    return Fields(**{**recorded, "uuid": bytes.fromhex(recorded["uuid"])})
