"""What a folder of filters says of itself: one frozen record, ready for people and for JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from mmbloom.filters.exclusion_list import ExclusionList
from mmbloom.filters.info import FilterInfo, read_info, without_secret
from mmbloom.folders.member import Member, key_rule_of
from mmbloom.format.manifest import Manifest
from mmbloom.sizing.formulas import rate_of_any


@dataclass(frozen=True, slots=True)
class FolderInfo:
    """A reading of a folder's manifest and of its files' headers, taken without a lock.

    Attributes
    ----------
    path : str
        The folder.
    kind : str
        "growing" or "rotating".
    uuid : str
        Identity of the folder, 32 hexadecimal digits.
    settings : dict
        What it was created with; with the seed, which `as_dict` has only if it is not secret.
    file_bytes : int
        Size of all files, those past their time as well.
    past_files : int
        Files of a rotating filter that are past their time: the first key of the next period
        drops them. They count for `file_bytes` only.
    keys_added : int
        Keys that were new to their file when they were added.
    approx_count : int
        Estimated number of keys: the sum over the files.
    fill_ratio : float
        Set bits over all bits, 0 to 1.
    capacity : int
        Keys that the files are planned for: the sum.
    error_rate : float
        False-positive rate that all files together are planned for.
    current_error_rate : float
        False-positive rate to expect of all files together.
    past_plan : bool
        Whether a file has more keys than it was planned for.
    read_only : str
        Why this object cannot write, "" if it can.
    exclusions : int
        Keys that are answered as not seen, by the file in the folder.
    key_rule : str or None
        How lines became its keys: see `Filter.key_rule`.
    files : list of FilterInfo
        Each file, oldest first; of a rotating filter those that a query asks.
    """

    path: str
    kind: str
    uuid: str
    settings: dict[str, object] = field(repr=False)  # has SipHash's key
    file_bytes: int
    past_files: int
    keys_added: int
    approx_count: int
    fill_ratio: float
    capacity: int
    error_rate: float
    current_error_rate: float
    past_plan: bool
    read_only: str
    exclusions: int
    key_rule: str | None
    files: list[FilterInfo]

    def as_dict(self) -> dict[str, object]:
        """Return the same as a dict of JSON-ready values."""
        files = [file.as_dict() for file in self.files]
        return {**asdict(self), "settings": without_secret(self.settings), "files": files}


def read_folder_info(
    path: str,
    manifest: Manifest,
    members: Sequence[Member],
    asked: Sequence[Member],
    exclusions: ExclusionList,
) -> FolderInfo:
    """Gather everything into one record: of all files, and of those of them that are asked."""
    infos = [read_info(member.storage, exclusions) for member in asked]
    num_bits = sum(info.num_bits for info in infos)
    return FolderInfo(
        path=path,
        kind=manifest.plan.kind,
        uuid=manifest.uuid.hex(),
        settings=asdict(manifest.plan),
        file_bytes=sum(member.storage.header.file_bytes for member in members),
        past_files=len(members) - len(asked),
        keys_added=sum(info.keys_added for info in infos),
        approx_count=sum(info.approx_count for info in infos),
        fill_ratio=sum(info.positions_set for info in infos) / num_bits if infos else 0.0,
        capacity=sum(info.capacity for info in infos),
        error_rate=manifest.plan.error_rate,
        current_error_rate=rate_of_any(info.current_error_rate for info in infos),
        past_plan=any(info.past_plan for info in infos),
        read_only=members[-1].storage.read_only_reason,
        exclusions=len(exclusions.keys),
        key_rule=key_rule_of(members),
        files=infos,
    )
