/* variables.cpp -- the variables of libraries and programs, from the symbols in
 * their files; and pinned host memory. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../api/cuda_heap.h"
#include "check.h"

namespace simt::SIMT_FIBERS {

struct Variable {
    uintptr_t address;
    size_t size;
    std::string name;
    bool is_writable;
    Array stand_in; // number 0: there is none yet
};

struct Module {
    std::string file;
    uintptr_t base;
    std::vector<Variable> variables; // sorted by address
    std::string device;              // names separated by spaces; "": all of
                                     // them
};

struct Modules {
    std::mutex lock;
    std::map<uintptr_t, Module> loaded; // by base address; modules are never
                                        // unloaded
    std::map<uintptr_t, Array> host;    // the ranges of the arena that
                                        // represent pinned memory
};
static Modules &modules() {
    static Modules *the = new Modules; // never destroyed
    return *the;
}

/* ---- a module's symbols ------------------------------------------------- */

/* A whole file, mapped into memory. */
struct File {
    const char *bytes = 0;
    size_t size = 0;
    explicit File(const char *path) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat info;
        if (fd >= 0 && !fstat(fd, &info) && info.st_size > 0) {
            void *at = mmap(0, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
            if (at != MAP_FAILED) bytes = (const char *)at;
            if (bytes) size = info.st_size;
        }
        if (fd >= 0) close(fd);
    }
    ~File() {
        if (bytes) munmap((void *)bytes, size);
    }
    bool holds(uint64_t offset, uint64_t length) const {
        return offset <= size && length <= size - offset;
    }
};

/* Return "x" for "_ZL1x" or "_ZN2ns1xE": the last of its names. */
static std::string last_name(const char *symbol) {
    if (strncmp(symbol, "_Z", 2)) {
        return std::string(symbol, strcspn(symbol, "."));
    }
    std::string name = symbol;
    for (const char *c = symbol + 2; *c;) {
        if (*c >= '1' && *c <= '9') {
            char *after;
            const size_t length = strtoul(c, &after, 10);
            if (length > strlen(after)) break;
            name.assign(after, length);
            c = after + length;
        } else if (*c == 'N' || *c == 'L' || *c == 'K' || *c == 'Z' ||
                   *c == 'E' || *c == 'v') {
            c++;
        } else {
            break;
        }
    }
    return name;
}

static void add_symbols(const File &file, const ElfW(Ehdr) & head,
                        const std::vector<ElfW(Shdr)> &sections,
                        const ElfW(Shdr) & table, Module *module) {
    const ElfW(Shdr) &names = sections[table.sh_link];
    // Exclude tables of pointers, which are constants once they are loaded.
    const auto is_writable = [&](unsigned i) {
        if (i >= sections.size()) return false;
        const uint64_t at = sections[head.e_shstrndx].sh_offset;
        const uint64_t name = at + sections[i].sh_name;
        return file.holds(name, 6) && (!memcmp(file.bytes + name, ".data", 6) ||
                                       !memcmp(file.bytes + name, ".bss", 5));
    };
    const size_t count = table.sh_size / sizeof(ElfW(Sym));
    if (!file.holds(table.sh_offset, table.sh_size) ||
        !file.holds(names.sh_offset, names.sh_size))
        return;
    for (size_t i = 0; i < count; i++) {
        ElfW(Sym) symbol;
        memcpy(&symbol, file.bytes + table.sh_offset + i * sizeof symbol,
               sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !symbol.st_size ||
            !symbol.st_shndx || symbol.st_name >= names.sh_size)
            continue;
        const char *name = file.bytes + names.sh_offset + symbol.st_name;
        const bool writable = is_writable(symbol.st_shndx) &&
                              strncmp(name, "_ZZ", 3); // not local
        module->variables.push_back({module->base + symbol.st_value,
                                     symbol.st_size,
                                     last_name(name),
                                     writable,
                                     {}});
    }
}

static void read_symbols(Module *module) {
    const File file(module->file.c_str());
    ElfW(Ehdr) head;
    if (!file.holds(0, sizeof head)) return;
    memcpy(&head, file.bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) ||
        head.e_shstrndx >= head.e_shnum ||
        !file.holds(head.e_shoff, (uint64_t)head.e_shnum * sizeof(ElfW(Shdr))))
        return;
    std::vector<ElfW(Shdr)> sections(head.e_shnum);
    memcpy(sections.data(), file.bytes + head.e_shoff,
           sections.size() * sizeof sections[0]);
    for (const auto &section : sections)
        if (section.sh_type == SHT_SYMTAB && section.sh_link < sections.size())
            add_symbols(file, head, sections, section, module);
    std::sort(module->variables.begin(), module->variables.end(),
              [](const Variable &a, const Variable &b) {
                  return a.address < b.address;
              });
}

/* ---- looking up --------------------------------------------------------- */

static Module *module_at(uintptr_t address) {
    Dl_info info;
    link_map *map = 0;
    if (!dladdr1((void *)address, &info, (void **)&map, RTLD_DL_LINKMAP) ||
        !info.dli_fname)
        return 0;
    const uintptr_t base = (uintptr_t)info.dli_fbase;
    auto found = modules().loaded.find(base);
    if (found != modules().loaded.end()) return &found->second;
    Module &mine = modules().loaded[base];
    // A program that is not position-independent is loaded at 0.
    mine.base = map ? (uintptr_t)map->l_addr : base;
    mine.file =
        map && map->l_name && *map->l_name ? map->l_name : info.dli_fname;
    char whole[4096];
    if (map && !(map->l_name && *map->l_name)) { // the program itself
        const ssize_t size = readlink("/proc/self/exe", whole, sizeof whole);
        if (size > 0) mine.file.assign(whole, size);
    } else if (realpath(mine.file.c_str(), whole)) {
        mine.file = whole;
    }
    read_symbols(&mine);
    return &mine;
}

static bool give_stand_in(Array *array) {
    void *room = take_array(*array, BOTH); // zeros count as written
    if (!room) return false;
    return find_array((uintptr_t)room - arena.base, array);
}

/* Return whether a kernel may use the variable: its module lists it as a device
 * variable, or has no such list. */
static bool is_device(const Module &module, const Variable &v) {
    return module.device.empty() ||
           module.device.find(" " + v.name + " ") != std::string::npos;
}

bool find_variable(uintptr_t address, Array *found, bool *known) {
    std::lock_guard<std::mutex> guard(modules().lock);
    Module *module = module_at(address);
    *known = module != 0;
    if (!module) return false;
    auto &all = module->variables;
    auto after = std::upper_bound(
        all.begin(), all.end(), address,
        [](uintptr_t at, const Variable &v) { return at < v.address; });
    if (after == all.begin()) return false;
    Variable &v = *std::prev(after);
    if (address - v.address >= v.size) return false;
    if (v.is_writable && !is_device(*module, v)) {
        *known = false; // a variable of the host
        return false;
    }
    if (!v.stand_in.number) {
        Array &a = v.stand_in;
        a.address = v.address;
        a.size = v.size;
        a.origin = FROM_VARIABLE;
        snprintf(a.name, sizeof a.name, "%s", v.name.c_str());
        if (!give_stand_in(&a)) return false;
    }
    *found = v.stand_in;
    return true;
}

bool find_host_memory(uintptr_t address, Array *found) {
    Allocation a;
    if (!find_allocation((const void *)address, &a)) return false;
    std::lock_guard<std::mutex> guard(modules().lock);
    Array &mine = modules().host[a.address];
    if (!mine.number || mine.size != a.size) {
        mine = {};
        mine.address = a.address;
        mine.size = a.size;
        mine.origin = a.memory == DEVICE    ? FROM_MALLOC
                      : a.memory == MANAGED ? FROM_MANAGED
                                            : FROM_HOST;
        if (!give_stand_in(&mine)) return false;
    }
    *found = mine;
    return true;
}

void checked_device_names(const char *names) {
    std::lock_guard<std::mutex> guard(modules().lock);
    // Several files of a program may register names.
    if (Module *module = module_at((uintptr_t)names)) module->device += names;
}

const char *module_of(const void *pc, uintptr_t *offset) {
    std::lock_guard<std::mutex> guard(modules().lock);
    Module *module = module_at((uintptr_t)pc);
    if (!module) return 0;
    *offset = (uintptr_t)pc - module->base;
    return module->file.c_str();
}

} // namespace simt::SIMT_FIBERS
