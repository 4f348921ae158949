"""Judges what arrived of a message stream: silence, and messages lost, repeated, out of order, or still waiting."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flow:
    """Result of one direction of the stream.

    `silence` is the longest time without an arrival while a pair of addresses worked; with `open_end`, it lasted until the fault was
    repaired, or until the end. `lost` messages were overtaken by later ones or belong to an association that has ended; `waiting` ones
    were still queued at the end.
    """

    silence: float
    open_end: bool
    lost: int
    repeated: int
    disordered: int
    waiting: int


def overlap(begin, end, intervals):
    """Returns the time between two moments that these disjoint intervals cover."""
    return sum(max(0.0, min(end, to) - max(begin, since)) for since, to in intervals)


def counts(numbers, sent, ended):
    """Returns (lost, repeated, disordered, waiting) of the numbers in their order of arrival, out of 0 to `sent` - 1."""
    seen, highest, repeated, disordered = set(), -1, 0, 0
    for number in numbers:
        if number in seen:
            repeated += 1
        elif number < highest:
            disordered += 1
        seen.add(number)
        highest = max(highest, number)
    overtaken = highest + 1 - len(seen)
    rest = max(0, sent - 1 - highest)
    return (overtaken + rest, repeated, disordered, 0) if ended else (overtaken, repeated, disordered, rest)


def longest_silence(times, begin, end, excused=(), complete=True):
    """Returns (silence, its begin, its end): the longest time between two arrivals in a window, without the excused intervals. An incomplete
    stream is silent until the end of the window.
    """
    before = [time for time in times if time < begin]
    marks = [before[-1] if before else begin, *(time for time in times if begin <= time <= end)]
    if not complete:
        marks.append(end)
    gaps = [(after - first - overlap(first, after, excused), first, after) for first, after in zip(marks, marks[1:])]
    return max(gaps, default=(0.0, begin, begin))


def flow(arrivals, sent, ended, window, excused=(), repairs=()):
    """Judges the arrivals (number, time) of one direction. `window` is (begin, end) of the measurement; `repairs` are the moments at which
    faults end, after which a silence may end in a stack that has not reacted at all.
    """
    lost, repeated, disordered, waiting = counts([number for number, _ in arrivals], sent, ended)
    complete = not (lost or waiting)
    silence, since, until = longest_silence([time for _, time in arrivals], *window, excused, complete)
    at_repair = any(since < repair <= until for repair in repairs)
    return Flow(round(silence, 3), at_repair or (not complete and until == window[1]), lost, repeated, disordered, waiting)


def states(history, begin, end):
    """Returns [(seconds since `begin`, state)] of the observations (time, state) until `end`, each state at its first observation. The last
    observation before `begin` is at 0.
    """
    found = []
    for time, state in history:
        if time > end:
            break
        at = max(0.0, round(time - begin, 1))
        if found and found[-1][1] == state:
            continue
        if found and at == 0.0 and found[-1][0] == 0.0:
            found[-1] = (at, state)
        else:
            found.append((at, state))
    return found
