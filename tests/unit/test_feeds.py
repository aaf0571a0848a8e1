"""Queues of durable events: bounded, in order, and nobody waits for a follower."""

import threading

from durasess.engine.feeds import FEED_EVENTS, Feed, Feeds, Published
from tests.support.sessions import PATIENCE_S, outcome_of

NOW = 0.0


def published(seq):
    return Published(seq, b"%d" % seq, 1)


def seqs(feed, timeout=NOW):
    return [one.seq for one in feed.take(timeout)]


# Feed


def test_events_are_taken_once_and_in_order():
    feed = Feed()
    for seq in (1, 2, 3):
        feed.offer(published(seq))
    assert feed.take(NOW) == [published(1), published(2), published(3)]
    assert feed.take(NOW) == []


def test_full_queue_drops_its_oldest_events_and_offering_never_waits():
    feed = Feed()
    for seq in range(1, FEED_EVENTS + 4):
        feed.offer(published(seq))
    assert seqs(feed) == list(range(4, FEED_EVENTS + 4))


def test_take_waits_for_the_first_event():
    feed = Feed()
    threading.Timer(0.01, feed.offer, [published(1)]).start()
    assert outcome_of(lambda: seqs(feed, PATIENCE_S * 10)) == [1]


def test_take_ends_without_an_event_when_the_time_is_over():
    assert outcome_of(lambda: seqs(Feed(), 0.01)) == []


def test_wake_ends_the_wait_without_an_event():
    feed = Feed()
    threading.Timer(0.01, feed.wake).start()
    assert outcome_of(lambda: seqs(feed, PATIENCE_S * 10)) == []


def test_wake_before_the_wait_is_not_lost():
    feed = Feed()
    feed.wake()
    assert outcome_of(lambda: seqs(feed, PATIENCE_S * 10)) == []


# Feeds


def test_every_follower_gets_every_event_from_its_opening_on():
    feeds = Feeds()
    feeds.offer(published(1))
    one = feeds.open()
    feeds.offer(published(2))
    other = feeds.open()
    feeds.offer(published(3))
    assert (seqs(one), seqs(other)) == ([2, 3], [3])


def test_closed_feed_gets_nothing_more_and_the_others_go_on():
    feeds = Feeds()
    assert not feeds.are_followed
    gone, left = feeds.open(), feeds.open()
    feeds.close(gone)
    feeds.close(gone)
    assert feeds.are_followed
    feeds.offer(published(1))
    assert (seqs(gone), seqs(left)) == ([], [1])
    feeds.close(left)
    assert not feeds.are_followed


def test_wake_ends_the_wait_of_every_follower():
    feeds = Feeds()
    waiting = [feeds.open() for _ in range(3)]
    feeds.wake()
    assert outcome_of(lambda: [seqs(feed, PATIENCE_S * 10) for feed in waiting]) == [[], [], []]


def test_feeds_may_come_and_go_while_events_are_offered():
    feeds = Feeds()
    problems = []

    def come_and_go():
        try:
            for _ in range(200):
                feeds.close(feeds.open())
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    kept = feeds.open()
    for seq in range(1, 201):
        feeds.offer(published(seq))
    for thread in threads:
        thread.join(PATIENCE_S)
    assert problems == []
    assert seqs(kept) == list(range(1, 201))
    feeds.close(kept)
    assert feeds._feeds == ()
