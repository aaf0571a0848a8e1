"""The one scanner of segments: lines → whole batches, the torn tail, damage, and what lies behind.

Recovery, verify, inspect, repair and history all read through it, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from durasess.engine import codec, files, segment, torn
from durasess.engine.plain import AT_ONCE, Remembered, Run
from durasess.engine.records import Place, Record
from durasess.engine.segment import Header, Line, Midway, Seal, Source
from durasess.engine.types import BLANKS, FILLER, Damage, LineError, SegmentInfo, TornTail


class Scan:
    """One pass over one segment, in order; its attributes are complete when it is exhausted. With
    `midway` it goes on where an earlier one ended, at the place `follows`.

    `chain` and `next_seq` are the values after the last whole batch, `end` the byte after it;
    `filler` counts its bytes at the end of the file; `edited` says that an editor's BOM or CRLF was
    passed over. `kept` are the lines of a last batch that lacks only its last line feed. After
    damage, `batches` goes on with single lines as far as they can be read (`proven` tells), so
    every reader sees all that is left.
    """

    def __init__(
        self,
        disk: files.Files,
        source: Source,
        *,
        session_id: str,
        is_last: bool,
        follows: Place | None = None,
        midway: Midway | None = None,
        remembers: bool = False,
    ) -> None:
        self._disk = disk
        self._source = source
        self._session_id = session_id
        self._is_last = is_last
        self._follows = follows
        self._hash = codec.hasher() if midway is None else midway.digest.copy()
        self._behind = codec.hasher()
        self.remembered = Remembered(remembers)
        self._pending: list[Record] = []
        self._gap_open = False
        self._candidate: tuple[Line, bytes] | None = None
        self.header: Header | None = None if midway is None else midway.header
        self.seal: Seal | None = None
        self.chain = follows.chain if follows else codec.CHAIN_START
        self.next_seq = follows.seq + 1 if follows else 1
        self.events = 0 if midway is None else midway.events
        self.end = 0 if midway is None else midway.offset
        self.filler = 0
        self.edited = False
        self.damage: list[Damage] = []
        self.torn: TornTail | None = None
        self.kept: list[Record] = []

    def batches(self) -> Iterator[list[Record]]:
        """Whole batches in order; behind damage, single readable lines."""
        ahead = self._first_chunk() if self.end == 0 else b""
        if self.end:
            begin = self.end if ahead else 0
            run = Run(self._disk, self._source, self.end, self.place, ahead, begin)
            for batch, pieces in run.batches():
                for piece in pieces:
                    self._hash.update(piece)
                    self.remembered.add(piece)
                self._advance(self.end + sum(map(len, pieces)), batch)
                yield batch
            ahead = run.ahead
        for line in segment.lines(self._disk, self._source, self.end, chunk=ahead):
            if line.offset == 0 and self._read_header(line):
                continue
            found = self._read_line(line)
            if self.damage:
                yield from ([record] for record in found)
            elif found:
                yield found
            if self.torn is not None:
                return
        yield from ([record] for record in self._finish())

    def _first_chunk(self) -> bytes:
        """What the file begins with; the header is read, when it is as a writer makes it."""
        data = self._source.read_at(self._disk, min(AT_ONCE, self._source.size), 0)
        size = data.find(b"\n") + 1
        try:
            self._use_header(data[: max(0, size - 1)], size > 0)
        except LineError:
            return data
        self.end = size
        self.remembered.add(data[:size])
        return data

    @property
    def number(self) -> int:
        """The segment's number."""
        return self._source.number

    @property
    def place(self) -> Place:
        """Where the log is after the last whole batch."""
        return Place(self.next_seq - 1, self.chain)

    def midway(self) -> Midway:
        """Where a later pass may go on; only between two batches of a sound segment."""
        assert self.header is not None
        return Midway(self.header, self.end, self.events, self._hash.copy())

    @property
    def behind(self) -> str:
        """A digest of all bytes behind the last whole batch: seal, filler, torn tail."""
        return self._behind.hexdigest()

    def info(self) -> SegmentInfo:
        """What was read, for reports."""
        return SegmentInfo(
            path=self._source.path,
            number=self._source.number,
            bytes=self._source.size - self.filler,
            events=self.events,
            first_seq=self.header.first_seq if self.header else 0,
            last_seq=self.next_seq - 1,
            sealed=self.seal is not None,
            compressed=self._source.content is not None,
        )

    def _read_header(self, line: Line) -> bool:
        """Whether the first line was taken as a header, valid or not."""
        text = self._trimmed(line.text.removeprefix(segment.BOM))
        self.edited |= text != line.text
        try:
            self._use_header(text, line.ended)
        except LineError as error:
            self._damaged(0, error.rule, f"the header is not valid: {error.reason}")
            return not codec.is_event(text)
        self.end = len(line.text) + 1
        return True

    def _use_header(self, text: bytes, ended: bool) -> None:
        if not ended:
            raise LineError("header", "the first line has no line feed")
        header = segment.parse_header(text, self._source.path)
        if header.session_id != self._session_id:
            raise LineError("session", f"it belongs to session {header.session_id!r}")
        if header.segment != self._source.number:
            raise LineError("header", f"it says it is segment {header.segment}")
        if self._follows is not None:
            found = Place(header.first_seq - 1, codec.unhexed(header.chain))
            if found != self._follows:
                raise LineError("header", f"it follows {found}, but the log is at {self._follows}")
        self._hash.update(text + b"\n")
        self.header = header
        self.chain = codec.unhexed(header.chain)
        self.next_seq = header.first_seq

    def _read_line(self, line: Line) -> list[Record]:
        """The batch that a line completes, or what was held back when it is damage."""
        text = self._trimmed(line.text)
        if not line.ended and self._is_filler(line.text):
            return []
        confirmed = self._confirmed(text)
        if confirmed:
            return confirmed + self._read_line(line)
        try:
            if self.seal is not None:
                raise LineError("seal", "bytes behind the seal")
            if not line.ended:
                raise LineError("line feed", f"{len(text)} bytes without a line feed")
            if self.damage:
                return self._read_behind_damage(line, text)
            if codec.is_event(text):
                return self._read_event(line, text)
            self._read_seal(text)
            self._behind.update(line.text + b"\n")
        except LineError as error:
            if self._is_last and self.seal is None and not self.damage and self._torn_at_end():
                return []
            if error.rule == "seq":
                self._candidate = (line, text)
            return self._damaged(line.offset, error.rule, error.reason)
        return []

    def _is_filler(self, text: bytes) -> bool:
        """What a writer put behind the last line to overwrite it later. Only the newest segment can
        have it, behind its seal too when the writer stopped before it cut it off. There a power cut
        in the cutting leaves zeros: the system clears the rest of a block that a file shall end in,
        and may have written that block and not yet the new size."""
        blanks = FILLER if self.seal is None else BLANKS
        if not self._is_last or self._source.content is not None or text.strip(blanks):
            return False
        self._behind.update(text)
        self.filler = len(text)
        return True

    def _confirmed(self, text: bytes | None) -> list[Record]:
        """A line that does not follow the one before it may be whole, with lines missing before
        it, or have a damaged seq, or stand in a wrong place. The line behind it tells: its seq is
        higher. At the end of the segment (None) nothing speaks against it."""
        if self._candidate is None:
            return []
        (line, candidate), self._candidate = self._candidate, None
        before = None if text is None else segment.seq_before(text)
        if before is not None and before < codec.head(candidate).seq:
            return []
        try:
            return self._read_behind_damage(line, candidate, is_confirmed=True)
        except LineError:
            return []

    def _read_event(self, line: Line, text: bytes) -> list[Record]:
        head = codec.head(text)
        expected = self.next_seq + len(self._pending)
        if head.seq != expected:
            raise LineError("seq", f"expected seq {expected}, found seq {head.seq}")
        crc = codec.check(text, self._pending[-1].crc if self._pending else self.chain)
        count = len(self._pending) + 1
        if head.batch != 0 and (head.batch or 1) != count:
            raise LineError(
                "batch", f"the line ends a batch of {head.batch or 1} lines, but {count} are here"
            )
        self._pending.append(Record(line.offset, text, head.seq, head.batch, crc))
        if head.batch == 0:
            return []
        batch, self._pending = self._pending, []
        for record in batch:
            self._hash.update(record.line + b"\n")
        self._advance(line.end, batch)
        return batch

    def _advance(self, end: int, batch: list[Record]) -> None:
        self.chain, self.next_seq = batch[-1].crc, batch[-1].seq + 1
        self.events += len(batch)
        self.end = end

    def _read_behind_damage(
        self, line: Line, text: bytes, *, is_confirmed: bool = False
    ) -> list[Record]:
        """Lines behind a gap are tied to each other by their stored crc (R17): the first can be
        read but not proven."""
        if not codec.is_event(text):
            self._read_seal(text)
            return []
        head = codec.head(text)
        stored = codec.stored_crc(text)
        if head.seq < self.next_seq:
            raise LineError("seq", f"seq {head.seq} stands again or too late")
        codec.event(text)
        try:
            follows = codec.check(text, self.chain) == stored and head.seq == self.next_seq
        except LineError:
            follows = False
        if not follows and not is_confirmed:
            is_late = head.seq != self.next_seq
            if is_late or self._gap_open:
                self._candidate = (line, text)
            if not self._gap_open:
                reason = f"expected seq {self.next_seq} after {self.place}, found seq {head.seq}"
                self._damaged(line.offset, "seq" if is_late else "crc", reason)
            return []
        # Without a header nothing ties a segment's lines to this session.
        proven = follows and self.header is not None
        self._close_gap(head.seq - 1)
        record = Record(line.offset, text, head.seq, head.batch, stored, proven)
        self._advance(line.end, [record])
        return [record]

    def _read_seal(self, text: bytes) -> None:
        if not text.startswith(b'{"seal":'):
            raise LineError("line", f"neither an event nor a seal: {text[:40]!r}")
        seal = segment.parse_seal(text)
        if not self.damage:
            codec.check(text, self.chain)
            if self._pending:
                raise LineError("batch", "a seal inside a batch")
            self._check_seal(seal)
        else:
            self._close_gap(seal.last_seq)
        self.seal = seal

    def _check_seal(self, seal: Seal) -> None:
        found = (self._source.number, self.next_seq - 1, self.events, self._hash.hexdigest())
        said = (seal.seal, seal.last_seq, seal.events, seal.blake2b)
        if found != said:
            raise LineError("seal", f"the seal says {said}, the bytes before it {found}")

    def _finish(self) -> list[Record]:
        if self._candidate is not None:
            return self._confirmed(None)
        if self.header is None and not self.damage:
            return self._damaged(0, "header", "empty, though a segment is made with its header")
        if self._pending and not (self._is_last and self._torn_at_end()):
            reason = f"{len(self._pending)} lines of an unfinished batch"
            return self._damaged(self.end, "batch", reason)
        if self.seal is None and not self._is_last and not self.damage:
            return self._damaged(self.end, "seal", "not sealed, though only the newest may be")
        return []

    def _torn_at_end(self) -> bool:
        """Whether all bytes after the last whole batch are what one cut write leaves."""
        size = self._source.size - self.end
        if size > torn.MAX_TORN_BYTES:
            return False
        rest = self._source.read_at(self._disk, size, self.end)
        verdict = torn.classify_end(rest, base=self.end, chain=self.chain, next_seq=self.next_seq)
        if verdict is None:
            return False
        self.kept = [Record(self.end + one[0], *one[1:]) for one in verdict.whole]
        self._pending.clear()
        self._behind = codec.hasher(rest)
        self.filler = len(rest) - len(rest.rstrip(FILLER))
        self.torn = TornTail(
            path=self._source.path,
            offset=self.end,
            size=len(rest) - self.filler,
            reason=verdict.reason,
            kept=len(self.kept),
        )
        return True

    def _trimmed(self, text: bytes) -> bytes:
        if text.endswith(b"\r"):
            self.edited = True
            return text[:-1]
        return text

    def _damaged(self, offset: int, rule: str, reason: str) -> list[Record]:
        """Note damage; the lines of the unfinished batch before it can still be read."""
        held, self._pending = self._pending, []
        if held:
            self.chain = held[-1].crc
            self.next_seq = held[-1].seq + 1
            self.events += len(held)
        if not self._gap_open:
            self._gap_open = True
            self.damage.append(
                Damage(
                    path=self._source.path,
                    offset=offset,
                    first_seq=self.next_seq,
                    rule=rule,
                    reason=reason,
                )
            )
        return held

    def _close_gap(self, last_seq: int) -> None:
        """What comes after the damage tells how many seqs it cost, none for an inserted line."""
        if not self._gap_open:
            return
        self._gap_open = False
        first = self.damage[-1].first_seq
        if first is not None and last_seq >= first:
            self.damage[-1] = msgspec.structs.replace(self.damage[-1], last_seq=last_seq)
        else:
            self.damage[-1] = msgspec.structs.replace(self.damage[-1], first_seq=None)
