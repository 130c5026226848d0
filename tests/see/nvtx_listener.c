/* nvtx_listener.c -- a tool that NVTX loads through NVTX_INJECTION64_PATH. It
 * writes the name of each range that begins to stderr, and "." when one ends.
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static int NVTX_API push(const char *name) {
    return fprintf(stderr, "%s ", name);
}

static int NVTX_API pop(void) { return fprintf(stderr, ". "); }

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
    const NvtxExportTableCallbacks *callbacks =
        (const NvtxExportTableCallbacks *)export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core;
    unsigned size;
    if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size))
        return 0;
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
