"""All that can be asked of an open database, in one place: loaded with the database, by the first call."""

from guideway.interpreter.store import (
    mutations,
    outbox,
    places,
    proofs,
    pruning,
    repeats,
    sessions,
    sweeping,
    tickets,
    trail,
    trail_pages,
    uses,
)


class Calls:
    """The functions of the modules, each of which takes its transaction first."""

    ask = staticmethod(tickets.ask)
    find = staticmethod(tickets.find)
    find_all = staticmethod(tickets.find_all)
    newest = staticmethod(tickets.newest)
    count_open = staticmethod(tickets.count_open)
    decide = staticmethod(tickets.decide)
    use = staticmethod(tickets.use)
    reserve = staticmethod(uses.reserve)
    beyond = staticmethod(uses.beyond)
    made = staticmethod(uses.times)
    settle = staticmethod(uses.settle)
    append = staticmethod(trail.append)
    has_record = staticmethod(trail.has)
    checkpoint = staticmethod(trail.checkpoint)
    sweep = staticmethod(sweeping.sweep)
    spans = staticmethod(pruning.spans)
    heads = staticmethod(trail_pages.heads)
    names = staticmethod(trail_pages.names)
    oddities = staticmethod(trail_pages.oddities)
    records = staticmethod(trail_pages.records)
    checkpoints = staticmethod(trail_pages.checkpoints)
    last_mutations = staticmethod(mutations.last)
    put_event = staticmethod(outbox.put)
    notice_is_due = staticmethod(outbox.is_due)
    claim_notices = staticmethod(outbox.claim)
    undelivered_notices = staticmethod(outbox.undelivered)
    forget_notice = staticmethod(outbox.forget)
    put_off_notice = staticmethod(outbox.put_off)
    put_session = staticmethod(sessions.put)
    get_session = staticmethod(sessions.get)
    delete_session = staticmethod(sessions.delete)
    prune_sessions = staticmethod(sessions.prune)
    take_places = staticmethod(places.take)
    renew_places = staticmethod(places.renew)
    give_places_back = staticmethod(places.give_back)
    put_proof = staticmethod(proofs.put)
    prune_proofs = staticmethod(proofs.prune)
    begin_call = staticmethod(repeats.begin)
    end_call = staticmethod(repeats.end)
    forget_call = staticmethod(repeats.forget)
