/* sites.cpp -- the numbering of the places in a program that access memory. */
#include <mutex>
#include <unordered_map>

#include "check.h"

namespace simt::SIMT_FIBERS {

static Site sites[MAX_SITES];
static std::atomic<unsigned> known{1}; // 0 means no place

struct Table {
    std::mutex lock;
    std::unordered_map<const void *, unsigned> numbers;
};
static Table &table() {
    static Table *the = new Table; // never destroyed: kernels may still run
    return *the;
}

Site site_at(unsigned number) {
    return number < known.load(std::memory_order_acquire) ? sites[number]
                                                          : Site{};
}

static unsigned number_of(const Site &site) {
    std::lock_guard<std::mutex> guard(table().lock);
    auto found = table().numbers.find(site.pc);
    if (found != table().numbers.end()) return found->second;
    const unsigned number = known.load(std::memory_order_relaxed);
    if (number == MAX_SITES) return 0; // further places are not distinguished
    sites[number] = site;
    known.store(number + 1, std::memory_order_release);
    return table().numbers[site.pc] = number;
}

unsigned intern_site(Checker *checker, const void *pc, unsigned size, Kind kind,
                     bool is_volatile) {
    const unsigned number =
        number_of({pc, (uint8_t)(size > 16 ? 0 : size), kind, is_volatile});
    if (checker && number)
        checker->sites[site_slot(pc)] = (uintptr_t)pc | (uint64_t)number
                                                            << SITE_TAG;
    return number;
}

} // namespace simt::SIMT_FIBERS
