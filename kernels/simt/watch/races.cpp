/* races.cpp -- ids: their distribution to workers, and their owners. */
#include "check.h"

#include <sys/mman.h>

#include <algorithm>

#include "sync.h"

namespace simt::SIMT_FIBERS {

enum : unsigned {
    BATCH = 1024,         // ids that a worker reserves at a time
    BATCHES = 1u << 22,   // the number of batches
    ENOUGH = BATCHES / 2, // number of used batches above which a launch
                          // restarts the ids
    WORKERS = 4096,       // above the possible number
    LARGE = 64 << 10      // bytes that are worth giving back to the system
};

/* The state of the worker with this number. */
struct Writer {
    std::atomic<unsigned> interval; /* id of the running interval */
    std::atomic_flag busy;
    unsigned launch;
    /* The first ids of the blocks of this launch, if the worker has several. */
    std::vector<std::pair<unsigned, uint64_t>> blocks;
    Races *races;
};

static struct Ids {
    std::atomic<unsigned> next{1}; /* number of the next batch */
    std::atomic<unsigned> launch_floor{BATCH};
    std::atomic<bool> running{false};
    std::mutex lock; /* guards the following members */
    unsigned grid_epoch = 0, grid_floor = 0;
    bool any_epoch = false;
} ids;

static uint16_t owners[BATCHES]; // owner of each batch; only used pages take
                                 // memory
static Writer writers[WORKERS];
static Cells global, global_bytes;

/* ---- memory ------------------------------------------------------------- */

static void *reserve(size_t bytes) {
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : memory;
}

/* Reserve shadows of the arena's words or bytes. Return false if there is no
 * room for them. */
static bool reserve_global(Cells *cells, size_t of_a_word) {
    cells->cells = (Cell *)reserve_shadow(of_a_word * sizeof(Cell));
    cells->others = (Mention *)reserve_shadow(of_a_word * sizeof(Mention));
    cells->updates = (Updates *)reserve_shadow(of_a_word * sizeof(Updates));
    return cells->cells && cells->others && cells->updates;
}

/* Reserve shadows of `count` words or bytes of shared memory. */
static bool reserve_cells(Cells *cells, size_t count) {
    cells->cells = (Cell *)reserve(count * sizeof(Cell));
    cells->others = (Mention *)reserve(count * sizeof(Mention));
    cells->updates = (Updates *)reserve(count * sizeof(Updates));
    return cells->cells && cells->others && cells->updates;
}

static bool have_cells() {
    static std::once_flag once;
    static bool all;
    std::call_once(once, [] {
        all = reserve_global(&global, 1) && reserve_global(&global_bytes, 4);
    });
    return all;
}

static void clear(void *from, size_t bytes) {
    const uintptr_t start = ((uintptr_t)from + 4095) & ~(uintptr_t)4095;
    const uintptr_t end = ((uintptr_t)from + bytes) & ~(uintptr_t)4095;
    if (bytes < LARGE) {
        memset(from, 0, bytes);
        return;
    }
    memset(from, 0, start - (uintptr_t)from);
    madvise((void *)start, end - start, MADV_DONTNEED);
    memset((void *)end, 0, (uintptr_t)from + bytes - end);
}

static void clear_cells(const Cells &cells, size_t start, size_t count) {
    if (!cells.cells) return;
    clear(cells.cells + start, count * sizeof(Cell));
    clear(cells.others + start, count * sizeof(Mention));
    clear(cells.updates + start, count * sizeof(Updates));
}

void races_forget(uintptr_t offset, size_t size) {
    // Accesses of earlier launches cannot race with later ones, so between
    // launches a small range need not be cleared. During a launch it must be,
    // because kernels may allocate memory. Large ranges are always cleared,
    // which gives their pages back to the system.
    if (!global.updates || !global_bytes.updates) return;
    if (!ids.running && size < LARGE) return;
    clear_cells(global, offset / 4, (size + 3) / 4);
    clear_cells(global_bytes, offset, size);
}

/* Clear every cell before the ids start again, after all ids have been used. */
static void begin_anew() {
    clear_cells(global, 0, arena.bytes / 4);
    clear_cells(global_bytes, 0, arena.bytes);
    for (Writer &writer : writers)
        if (Races *races = writer.races) {
            clear_cells(races->shared, 0, SHADOWED / 4);
            clear_cells(races->shared_bytes, 0, SHADOWED);
            memset(races->own_id, 0, sizeof races->own_id);
            races->launch = 0;
            races->next = races->end = 0;
            forget_sync(races);
        }
    ids.next = 1;
}

/* ---- taking ids --------------------------------------------------------- */

unsigned take_id(Checker *checker) {
    Races &races = checker->races;
    if (races.next == races.end) {
        const unsigned batch = ids.next.fetch_add(1);
        if (batch >= BATCHES) { // this happens only after two billion intervals
                                // in one launch
            ids.next = BATCHES;
            races.off = races.slow = true;
            return races.next - 1;
        }
        owners[batch] = (uint16_t)checker->number;
        races.next = batch * BATCH;
        races.end = races.next + BATCH;
    }
    return races.next++;
}

static void begin_interval(Checker *checker) {
    Races &races = checker->races;
    races.interval = take_id(checker);
    const unsigned batch = races.interval / BATCH * BATCH;
    if (races.own_low < batch) races.own_low = batch;
    races.own_end = batch + BATCH;
    writers[checker->number].interval.store(races.interval,
                                            std::memory_order_relaxed);
}

bool is_own(const Checker *checker, unsigned id) {
    return owners[id / BATCH] == checker->number && id >= checker->races.first;
}

bool may_be_under_way(unsigned id) {
    return id >= writers[owners[id / BATCH]].interval.load();
}

static void lock(Writer &writer) {
    while (writer.busy.test_and_set(std::memory_order_acquire)) {
    }
}

uint64_t block_of(unsigned id) {
    Writer &writer = writers[owners[id / BATCH]];
    lock(writer);
    auto after = std::upper_bound(writer.blocks.begin(), writer.blocks.end(),
                                  std::make_pair(id, ~(uint64_t)0));
    const uint64_t block =
        after == writer.blocks.begin() ? 0 : std::prev(after)->second;
    writer.busy.clear(std::memory_order_release);
    return block;
}

/* ---- beginnings and ends of launches, blocks and fibers ----------------- */

void races_begin_launch(Job *) {
    if (!have_cells()) return;
    if (ids.next >= ENOUGH) begin_anew();
    ids.launch_floor = ids.next * BATCH;
    ids.any_epoch = false;
    ids.running = true;
    sync_begin_launch();
}

void races_end_launch(Job *) {
    ids.running = false;
    sync_end_launch();
}

static bool prepare(Checker *checker) {
    Races &races = checker->races;
    if (!have_cells() || checker->number >= WORKERS) return false;
    if (!races.sync &&
        (!reserve_cells(&races.shared, SHADOWED / 4) ||
         !reserve_cells(&races.shared_bytes, SHADOWED) || !create_sync(&races)))
        return false;
    races.global = global;
    races.global_bytes = global_bytes;
    writers[checker->number].races = &races;
    return true;
}

static void join_launch(Checker *checker, unsigned launch) {
    Races &races = checker->races;
    races.launch = launch;
    races.off = races.slow = !prepare(checker);
    races.settled = ids.launch_floor;
    races.next = races.end; // the remaining ids are older
    Writer &writer = writers[checker->number];
    lock(writer);
    writer.blocks.clear();
    writer.busy.clear(std::memory_order_release);
}

void races_begin_block(Checker *checker, Block *block) {
    Races &races = checker->races;
    if (races.launch != block->launch) join_launch(checker, block->launch);
    if (races.off) return;
    races.in_doubt = races.slow = false;
    const uint3 at = block->index;
    const dim3 grid = block->grid_dim;
    races.block = ((uint64_t)at.z * grid.y + at.y) * grid.x + at.x;
    races.own_low = 0;
    begin_interval(checker);
    races.first = races.own_low = races.interval;
    sync_begin_block(checker);
    if ((uint64_t)grid.x * grid.y * grid.z == 1) return;
    Writer &writer = writers[checker->number];
    lock(writer);
    writer.blocks.push_back({races.first, races.block});
    writer.busy.clear(std::memory_order_release);
}

void races_end_block(Checker *checker, Block *) {
    if (checker->races.in_doubt) settle_doubt(checker);
}

void races_at_barrier(Checker *checker, Block *) {
    Races &races = checker->races;
    if (races.off) return;
    if (races.in_doubt) settle_doubt(checker);
    const unsigned old = races.interval;
    begin_interval(checker);
    sync_at_barrier(checker, old);
}

void races_before_grid_barrier(Checker *checker, Block *, unsigned) {
    if (checker->races.in_doubt) settle_doubt(checker);
}

void races_after_grid_barrier(Checker *checker, Block *, unsigned epoch) {
    Races &races = checker->races;
    if (races.off) return;
    {
        // All blocks have arrived. The first one to leave determines which ids
        // are old.
        std::lock_guard<std::mutex> guard(ids.lock);
        if (!ids.any_epoch || ids.grid_epoch != epoch) {
            ids.any_epoch = true;
            ids.grid_epoch = epoch;
            ids.grid_floor = ids.next * BATCH;
        }
        races.settled = ids.grid_floor;
    }
    races.next = races.end;
    begin_interval(checker);
}

} // namespace simt::SIMT_FIBERS
