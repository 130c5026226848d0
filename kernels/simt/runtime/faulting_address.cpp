/* faulting_address.cpp -- the address that an x86-64 instruction accesses.
 *
 * The processor reports the faulting address, except for accesses to an address
 * with invalid high bits and accesses by an instruction that requires an
 * aligned operand. For these, this file computes the address from the
 * instruction (Intel's manual, volume 2, chapter 2: prefixes, opcode, ModRM,
 * SIB). */
#include "signals.h"

#if SIMT_SIGNALS && defined(__x86_64__)
namespace simt::SIMT_FIBERS {

/* The decoded part of an instruction. */
struct Instruction {
    const unsigned char *at;
    unsigned extend; /* REX: bits 0, 1, 2 extend base, index, register */
    unsigned map;    /* 0: one-byte opcodes, 1: 0f, 2: 0f 38, 3: 0f 3a */
    unsigned char opcode;
    bool segment; /* relative to a segment, so the address is unknown */
};

static void read_prefixes(Instruction *in) {
    for (;; in->at++) {
        const unsigned char byte = *in->at;
        if (byte == 0x64 || byte == 0x65)
            in->segment = true;
        else if (!strchr("\x66\xf2\xf3\x2e\x36\x3e\x26\xf0", byte) || !byte)
            break;
    }
    if ((*in->at & 0xf0) == 0x40) in->extend = *in->at++ & 7;
}

static void read_opcode(Instruction *in) {
    if (*in->at == 0xc5) { // VEX: AVX's prefixes, which contain the opcode's
                           // map
        in->map = 1;
        in->at += 2;
    } else if (*in->at == 0xc4) {
        in->map = in->at[1] & 31;
        in->extend = ~in->at[1] >> 5 & 7;
        in->at += 3;
    } else if (*in->at == 0x0f) {
        in->map = in->at[1] == 0x38 ? 2 : in->at[1] == 0x3a ? 3 : 1;
        in->at += in->map == 1 ? 1 : 2;
    }
    in->opcode = *in->at++;
}

/* Return whether a ModRM byte follows the opcode. */
static bool has_operand(const Instruction *in) {
    const unsigned op = in->opcode;
    if (in->map) return in->map != 1 || (op & 0xf0) != 0x80;
    return (op < 0x40 && (op & 7) < 4) || op == 0x63 || (op & 0xf0) == 0x80 ||
           op == 0x69 || op == 0x6b || (op & 0xfe) == 0xc6 ||
           (op & 0xfe) == 0xf6 || op >= 0xfe;
}

/* Return 1 for plain stores, 0 for plain loads, and -1 for other
 * instructions. */
static int direction(const Instruction *in) {
    static const unsigned char stores[2][4] = {{0x88, 0x89, 0xc6, 0xc7},
                                               {0x29, 0x7f, 0x2b, 0xe7}};
    static const unsigned char loads[2][4] = {{0x8a, 0x8b, 0x63, 0x63},
                                              {0x28, 0x6f, 0x10, 0xb6}};
    if (in->map > 1) return -1;
    for (int i = 0; i < 4; i++) {
        if (in->opcode == stores[in->map][i]) return 1;
        if (in->opcode == loads[in->map][i]) return 0;
    }
    return -1;
}

static uintptr_t value_of(const ucontext_t *context, unsigned number) {
    static const int registers[] = {
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
        REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uintptr_t)context->uc_mcontext.gregs[registers[number]];
}

uintptr_t operand_address(const ucontext_t *context, int *write) {
    Instruction in = {};
    in.at = (const unsigned char *)program_counter(context);
    read_prefixes(&in);
    if (*in.at == 0x62) return 0; // AVX-512: kernels are not built for it
    read_opcode(&in);
    if (in.segment || !has_operand(&in)) return 0;
    const unsigned modrm = *in.at++, mode = modrm >> 6;
    unsigned base = modrm & 7;
    uintptr_t address = 0;
    if (mode == 3) return 0; // the operand is a register
    *write = direction(&in);
    bool no_base = base == 5 && mode == 0;
    if (no_base) return 0; // relative to the code, so it cannot fault
    if (base == 4) {
        const unsigned sib = *in.at++;
        const unsigned index = (sib >> 3 & 7) | (in.extend & 2) << 2;
        base = sib & 7;
        if (index != 4) address = value_of(context, index) << (sib >> 6);
        no_base = base == 5 && mode == 0;
    }
    if (!no_base) address += value_of(context, base | (in.extend & 1) << 3);
    int32_t offset = 0;
    if (mode == 1)
        offset = (signed char)*in.at;
    else if (mode == 2 || no_base)
        memcpy(&offset, in.at, sizeof offset);
    return address + (uintptr_t)(intptr_t)offset;
}

} // namespace simt::SIMT_FIBERS
#endif
