/* report.cpp -- all results as JSON text; see simt_check.h. */
#include "report.h"

#include <stdlib.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "counters.h"

namespace simt::SIMT_FIBERS {

/* ---- text --------------------------------------------------------------- */

void Sink::print(const char *format, ...) {
    char room[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int size = vsnprintf(room, sizeof room, format, args);
    va_end(args);
    if (size < (int)sizeof room) {
        text.append(room, size < 0 ? 0 : size);
    } else {
        std::string all(size + 1, 0);
        vsnprintf(&all[0], all.size(), format, again);
        text.append(all, 0, size);
    }
    va_end(again);
}

void Sink::quote(const char *string) {
    text += '"';
    for (const char *c = string; *c; c++)
        if (*c == '"' || *c == '\\')
            (text += '\\') += *c;
        else if ((unsigned char)*c < ' ')
            print("\\u%04x", *c);
        else
            text += *c;
    text += '"';
}

/* ---- modules ------------------------------------------------------------ */

static std::map<std::string, unsigned> *modules; // modules of the report being
                                                 // made
static std::mutex &reporting = *new std::mutex;

void Sink::place(const void *pc) {
    uintptr_t offset = 0;
    // The call instruction is before its return address.
    const char *file = pc ? module_of((const char *)pc - 1, &offset) : 0;
    if (!file) return print("null");
    const unsigned next = (unsigned)modules->size();
    const unsigned number = modules->insert({file, next}).first->second;
    print("[%u, %llu]", number, (unsigned long long)offset);
}

static std::string whole_report() {
    std::lock_guard<std::mutex> guard(reporting);
    std::map<std::string, unsigned> found;
    modules = &found;
    Sink findings, kernels;
    write_findings(&findings);
    write_counters(&kernels);
    modules = 0;
    Sink sink;
    sink.print("{\"modules\": [");
    for (unsigned i = 0; i < found.size(); i++)
        for (const auto &module : found)
            if (module.second == i) {
                sink.print("%s", i ? ", " : "");
                sink.quote(module.first.c_str());
            }
    sink.text += "],\n \"findings\": " + findings.text;
    sink.text += ",\n \"kernels\": " + kernels.text;
    const simt_fault *fault = simt_last_launch_fault();
    sink.print(",\n \"library\": ");
    sink.quote(fault->kind == SIMT_FAULT_LIBRARY ? fault->text : "");
    sink.text += "}\n";
    return sink.text;
}

/* ---- the file of a whole program ---------------------------------------- */

static void write_report(const char *path) {
    // Write to a second file first, so that a program that dies leaves the old
    // report intact.
    const std::string part = std::string(path) + ".part";
    FILE *file = fopen(part.c_str(), "w");
    if (!file) return;
    const std::string text = whole_report();
    const bool whole = fwrite(text.data(), 1, text.size(), file) == text.size();
    if (fclose(file) == 0 && whole)
        rename(part.c_str(), path);
    else
        unlink(part.c_str());
}

static void write_at_exit() {
    if (const char *path = getenv("WEFT_CHECK_REPORT")) write_report(path);
}

void write_report_if_asked() {
    static std::mutex &lock = *new std::mutex;
    static bool at_exit;
    static size_t written;
    const char *path = getenv("WEFT_CHECK_REPORT");
    if (!path) return;
    std::lock_guard<std::mutex> guard(lock);
    const size_t now = findings_known();
    if (at_exit && now == written) return;
    if (!at_exit) at_exit = !atexit(write_at_exit);
    written = now;
    write_report(path);
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void simt_check_begin(void) {
    clear_findings();
    counters_clear();
}

extern "C" char *simt_check_report(void) {
    try {
        const std::string text = whole_report();
        char *copy = (char *)malloc(text.size() + 1);
        if (copy) memcpy(copy, text.c_str(), text.size() + 1);
        return copy;
    } catch (const std::bad_alloc &) {
        return 0;
    }
}

extern "C" void simt_check_free(char *report) { free(report); }
