/* cells.cpp -- the checks of one access against the cells of the words or bytes
 * that it touches. */
#include <sched.h>

#include "sync.h"

namespace simt::SIMT_FIBERS {

/* The ways in which an access counts. A volatile access counts like an atomic
 * load or store. */
enum Way { PLAIN_READ, WEAK_READ, PLAIN_WRITE, UPDATE };

/* The values that are the same for all words of one access. */
struct Judge {
    Checker *checker;
    Fiber *self;
    const Access *access;
    Races *races;
    Mention now;
    unsigned floor, me;
    Way way;
    bool shared, told;
};

static Way way_of(const Access &access) {
    if (access.kind == ATOMIC)
        return access.effect == EFFECT_READS ? WEAK_READ : UPDATE;
    if (access.kind == READ) return access.is_volatile ? WEAK_READ : PLAIN_READ;
    return access.is_volatile ? UPDATE : PLAIN_WRITE;
}

/* ---- order -------------------------------------------------------------- */

static bool is_live(const Judge &j, Mention m) { return id_of(m) >= j.floor; }

static bool is_own(const Judge &j, Mention m) {
    return j.shared || is_own(j.checker, id_of(m));
}

/* Return whether an access of the running block came before the current one. */
static bool own_before(const Judge &j, Mention m) {
    const unsigned thread = thread_of(m);
    return thread == j.me || id_of(m) < known(*j.races, j.me, thread);
}

/* Return whether an access of any block came before the current access. Return
 * false if the answer would require a long search. */
static bool soon_before(const Judge &j, Mention m) {
    return !is_live(j, m) || (is_own(j, m) && own_before(j, m));
}

static bool comes_before(const Judge &j, Mention m) {
    if (!is_live(j, m)) return true;
    if (is_own(j, m))
        return own_before(j, m) ||
               (m & UPDATED && update_before(*j.races, j.me, m, *j.access));
    return before_across(j.checker, j.self, m, block_of(id_of(m)));
}

static Mention distance(const Judge &j, Mention a, Mention b) {
    if (is_own(j, a) != is_own(j, b)) return IN_GRID;
    if (!is_own(j, a) && block_of(id_of(a)) != block_of(id_of(b)))
        return IN_GRID;
    return thread_of(a) / WARP == thread_of(b) / WARP ? IN_WARP : IN_BLOCK;
}

/* ---- findings ----------------------------------------------------------- */

static void say(Checker *checker, const Fiber *self, const Access &now,
                Mention m, bool own, bool conflict) {
    const Block *block = checker->worker;
    Earlier earlier;
    earlier.site = site_of(m);
    earlier.kind = site_at(earlier.site).kind;
    earlier.block =
        own ? block->index : position(block_of(id_of(m)), block->grid_dim);
    earlier.thread = position(thread_of(m), block->block_dim);
    found_race(checker, self, now, earlier, conflict);
}

static void require_before(Judge &j, Mention m) {
    if (j.told || !m || comes_before(j, m)) return;
    j.told = true;
    say(j.checker, j.self, *j.access, m, is_own(j, m), false);
}

/* ---- two writes --------------------------------------------------------- */

/* Wait until another worker that may be about to write these bytes has stored
 * them. It has recorded its write, and the store follows a few instructions
 * later. */
static void wait_for_store(const Judge &j, Mention m) {
    const volatile uint8_t *at = (const volatile uint8_t *)j.access->address;
    const uint8_t before = *at;
    for (int i = 0; i < 64 && may_be_under_way(id_of(m)) && *at == before; i++)
        if (i % 16 == 15) sched_yield();
}

/* Record a doubt: two threads write the bytes `mask` of the access, and nothing
 * orders the writes. Equal values are harmless. */
static void doubt(Judge &j, Mention earlier, unsigned mask) {
    Races &races = *j.races;
    Doubt &doubt = races.doubt;
    if (!races.in_doubt) {
        if (!is_own(j, earlier)) wait_for_store(j, earlier);
        races.in_doubt = races.slow = true;
        doubt.now = *j.access;
        doubt.self = *j.self;
        doubt.earlier = earlier;
        doubt.bytes = 0;
        memcpy(doubt.before, (const void *)j.access->address, j.access->size);
    }
    doubt.bytes |= mask;
}

void settle_doubt(Checker *checker) {
    Races &races = checker->races;
    const Doubt &doubt = races.doubt;
    races.in_doubt = false;
    races.slow = races.off;
    const unsigned char *now = (const unsigned char *)doubt.now.address;
    bool differ = false;
    for (unsigned i = 0; i < doubt.now.size; i++)
        differ |= doubt.bytes >> i & 1 && now[i] != doubt.before[i];
    if (!differ) return;
    const bool own =
        doubt.now.space == SHARED || is_own(checker, id_of(doubt.earlier));
    say(checker, &doubt.self, doubt.now, doubt.earlier, own, true);
}

/* ---- one cell ----------------------------------------------------------- */

static void note_read(Judge &j, const Cells &cells, size_t i, bool weak) {
    Cell &cell = cells.cells[i];
    const Mention read = look_at(cell.read), now = weak ? j.now | WEAK : j.now;
    const Mention far = read & DISTANCE;
    if (!is_live(j, read)) {
        put_at(cell.read, now);
        return;
    }
    if (!((read ^ now) & ID_AND_THREAD)) {
        if (read & WEAK && !weak) put_at(cell.read, now | far);
        return;
    }
    Mention other = far ? look_at(cells.others[i]) : 0;
    if (other && soon_before(j, other)) other = 0;
    if (soon_before(j, read)) {
        put_at(cell.read, now | (other ? distance(j, now, other) : 0));
        return;
    }
    const Mention apart = distance(j, read, now);
    if (read & WEAK && !weak) { // a plain read takes precedence
        put_at(cells.others[i], read & ~(Mention)DISTANCE);
        put_at(cell.read, now | apart);
    } else if (!other || apart > far || (other & WEAK && !weak)) {
        put_at(cells.others[i], now);
        put_at(cell.read, (read & ~(Mention)DISTANCE) | apart);
    }
}

/* Keep two of the threads that update a word, as far apart as possible. */
static void note_update(const Judge &j, Updates &updates) {
    const Mention now = j.now | UPDATED;
    const Mention first = updates.first, second = updates.second;
    const bool alone = soon_before(j, second);
    if (soon_before(j, first))
        put_at(updates.first, now);
    else if (alone || distance(j, first, now) > distance(j, first, second))
        put_at(updates.second, now);
}

/* Check that every reader is ordered before the current write. */
static void check_readers(Judge &j, const Cells &cells, size_t i, bool weakly) {
    const Mention read = look_at(cells.cells[i].read);
    if (!is_live(j, read)) return;
    if (!(weakly && read & WEAK)) require_before(j, read);
    if (!(read & DISTANCE)) return;
    const Mention other = look_at(cells.others[i]);
    if (!(weakly && other & WEAK)) require_before(j, other);
}

static void write_cell(Judge &j, const Cells &cells, size_t i, unsigned mask) {
    Cell &cell = cells.cells[i];
    const Mention write = look_at(cell.write);
    check_readers(j, cells, i, false);
    if (is_live(j, write)) {
        if (write & UPDATED) {
            const Updates &updates = cells.updates[i];
            require_before(j, look_at(updates.first));
            require_before(j, look_at(updates.second));
            require_before(j, look_at(updates.plain));
        } else if (!j.told && !comes_before(j, write)) {
            doubt(j, write, mask);
        }
    }
    put_at(cell.write, j.now);
    if (is_live(j, look_at(cell.read))) put_at(cell.read, 0);
}

/* Note the read that a thread makes before a swap, such as `*p` in a loop
   around atomicCAS(p, ...). */
static void note_look(const Judge &j, const Cells &cells, size_t i) {
    const Mention read = look_at(cells.cells[i].read);
    const Mention other = read & DISTANCE ? look_at(cells.others[i]) : 0;
    for (const Mention m : {read, other})
        if (is_live(j, m) && thread_of(m) == j.me && is_own(j, m))
            note_first_look(site_of(m));
}

static void update_cell(Judge &j, const Cells &cells, size_t i) {
    Cell &cell = cells.cells[i];
    Updates &updates = cells.updates[i];
    const Mention write = look_at(cell.write);
    if (j.access->effect == EFFECT_SWAPS) note_look(j, cells, i);
    check_readers(j, cells, i, true);
    if (!is_live(j, write) || !(write & UPDATED)) {
        put_at(updates.plain, is_live(j, write) ? write : 0);
        put_at(updates.first, 0);
        put_at(updates.second, 0);
    }
    require_before(j, look_at(updates.plain));
    note_update(j, updates);
    put_at(cell.write, j.now | UPDATED);
}

static void read_cell(Judge &j, const Cells &cells, size_t i, bool weak) {
    const Mention write = look_at(cells.cells[i].write);
    if (is_live(j, write)) {
        if (write & UPDATED) {
            const Updates &updates = cells.updates[i];
            require_before(j, look_at(updates.plain));
            if (!weak) {
                require_before(j, look_at(updates.first));
                require_before(j, look_at(updates.second));
            }
        } else {
            require_before(j, write);
        }
    }
    note_read(j, cells, i, weak);
}

/* Judge one cell. mask: the bytes of the access that this cell covers. */
static void judge_cell(Judge &j, const Cells &cells, size_t i, unsigned mask) {
    switch (j.way) {
    case PLAIN_READ: read_cell(j, cells, i, false); break;
    case WEAK_READ: read_cell(j, cells, i, true); break;
    case PLAIN_WRITE: write_cell(j, cells, i, mask); break;
    case UPDATE: update_cell(j, cells, i);
    }
}

/* ---- words and bytes ---------------------------------------------------- */

/* Split a word: from now on each of its bytes has a separate cell, until these
 * entries are old. */
static void split_word(const Judge &j, const Cells &words, const Cells &bytes,
                       size_t word) {
    const Cell cell = {look_at(words.cells[word].write),
                       look_at(words.cells[word].read)};
    for (size_t i = 4 * word; i < 4 * word + 4; i++) {
        if (is_live(j, cell.write)) {
            if (cell.write & UPDATED) bytes.updates[i] = words.updates[word];
            put_at(bytes.cells[i].write, cell.write);
        }
        if (is_live(j, cell.read)) {
            if (cell.read & DISTANCE) bytes.others[i] = words.others[word];
            put_at(bytes.cells[i].read, cell.read);
        }
    }
    put_at(words.cells[word].write, j.now | BYTES);
}

static void judge_word(Judge &j, const Cells &words, const Cells &bytes,
                       size_t word, unsigned byte) {
    const Mention write = look_at(words.cells[word].write);
    if (!is_live(j, write) || !(write & BYTES)) {
        judge_cell(j, words, word, 15u << byte);
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        judge_cell(j, bytes, 4 * word + i, 1u << (byte + i));
}

static void judge_byte(Judge &j, const Cells &words, const Cells &bytes,
                       size_t at, unsigned byte) {
    const Mention write = look_at(words.cells[at / 4].write);
    if (!is_live(j, write) || !(write & BYTES))
        split_word(j, words, bytes, at / 4);
    const Races &races = *j.races;
    if (j.way == PLAIN_READ && read_plainly(races, bytes, at, j.now, j.floor))
        return;
    if (j.way == PLAIN_WRITE && write_plainly(races, bytes, at, j.now, j.floor))
        return;
    judge_cell(j, bytes, at, 1u << byte);
}

void judge_access(Checker *checker, Fiber *self, const Access &access) {
    Races &races = checker->races;
    if (races.off) return;
    if (races.in_doubt) settle_doubt(checker);
    if (access.kind == ATOMIC || access.is_volatile)
        sync_at_access(checker, self, access);
    const bool shared = access.space == SHARED;
    const Cells &words = shared ? races.shared : races.global;
    const Cells &bytes = shared ? races.shared_bytes : races.global_bytes;
    Judge j = {checker,
               self,
               &access,
               &races,
               mention(races, self, access.site),
               shared ? races.interval : races.settled,
               self->thread.linear,
               way_of(access),
               shared,
               false};
    const bool whole = !((access.size | access.offset) & 3);
    for (unsigned i = 0; i < access.size; i += whole ? 4 : 1)
        if (whole)
            judge_word(j, words, bytes, (access.offset + i) / 4, i);
        else
            judge_byte(j, words, bytes, access.offset + i, i);
}

} // namespace simt::SIMT_FIBERS
