/* cases.h -- shared by both files of kernels. main() runs each case in three
 * orders of threads, and writes one line with the watch build's report:
 *
 *     NAME ORDER ERROR JSON */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>

namespace cg = cooperative_groups;

extern "C" {
void simt_set_order(int);
void simt_check_begin(void);
char *simt_check_report(void);
void simt_check_free(char *);
void simt_clear_fault(void);
}

struct Case {
    const char *name;
    void (*run)(int *memory);
    Case *next;
    Case(const char *name, void (*run)(int *));
};
static Case *first_case;
inline Case::Case(const char *name, void (*run)(int *))
    : name(name), run(run), next(first_case) {
    first_case = this;
}

/* A case's launches; `memory` is on the device, and filled with zeros. */
#define CASE(name)                              \
    static void run_##name(int *memory);        \
    static Case case_##name(#name, run_##name); \
    static void run_##name(int *memory)

enum { INTS = 1 << 16 };

int main(int argc, char **argv) {
    for (Case *c = first_case; c; c = c->next) {
        if (argc > 1 && strcmp(argv[1], c->name)) continue;
        for (int order = 0; order < 3; order++) {
            simt_set_order(order);
            int *memory;
            cudaMalloc(&memory, INTS * sizeof(int));
            cudaMemset(memory, 0, INTS * sizeof(int));
            simt_check_begin();
            c->run(memory);
            cudaError_t error = cudaDeviceSynchronize();
            char *report = simt_check_report();
            for (char *at = report; *at; at++)
                if (*at == '\n') *at = ' ';
            printf("%s %d %d %s\n", c->name, order, (int)error, report);
            simt_check_free(report);
            simt_clear_fault();
            cudaFree(memory);
        }
    }
}
