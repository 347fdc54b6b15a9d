/* SPDX-License-Identifier: MIT
 *
 * That no thread has to wait for another one in a region: of the bytes that two parts
 * or two tasks share none are written. It looks at places and sizes alone, and knows
 * nothing of how regions are built. */
#include "program/verify_impl.h"

/* An operand of an instruction in a region. */
typedef struct use {
    ipu_place place;
    size_t bytes;
    bool is_output;
    bool by_rows; /* a part uses its own rows alone */
} use;

static const ipu_kernel_spec *
spec_of(const ipu__checker *c, size_t at)
{
    return &c->program->specs.items[c->stream->instructions.items[at].spec];
}

static uint32_t
use_count(const ipu__checker *c, size_t at)
{
    return ipu_operand_count(&c->stream->instructions.items[at]);
}

static use
use_of(const ipu__checker *c, size_t at, uint32_t index)
{
    const ipu_instruction *instruction = &c->stream->instructions.items[at];
    bool is_output = ipu_operand_is_output(instruction, index);
    return (use){*ipu_operand_place(instruction, index),
                 ipu_operand_bytes(c->program, instruction, index), is_output,
                 is_output || ipu_kernel_reads_rows(&spec_of(c, at)->rows, index)};
}

/* Whether parts of two instructions, or of one, can run at the same time. */
static ipu_status
check_parts(ipu__checker *c, size_t one, size_t other)
{
    for (uint32_t i = 0; i < use_count(c, one); i++) {
        for (uint32_t k = 0; k < use_count(c, other); k++) {
            use a = use_of(c, one, i);
            use b = use_of(c, other, k);
            bool is_same = one == other && i == k;
            bool is_written = (a.is_output || b.is_output) && !is_same &&
                              ipu__verify_share(c, a.place, a.bytes, b.place, b.bytes);
            bool is_apart = a.by_rows && b.by_rows && a.bytes == b.bytes &&
                            ipu__verify_same_place(a.place, b.place);
            REQUIRE(c, !is_written || is_apart,
                    "a part of its region needs rows of another part");
        }
    }
    return IPU_OK;
}

/* Whether two tasks can run at the same time. */
static ipu_status
check_apart(ipu__checker *c, size_t one, size_t other)
{
    for (uint32_t i = 0; i < use_count(c, one); i++) {
        for (uint32_t k = 0; k < use_count(c, other); k++) {
            use a = use_of(c, one, i);
            use b = use_of(c, other, k);
            REQUIRE(c,
                    !(a.is_output || b.is_output) ||
                        !ipu__verify_share(c, a.place, a.bytes, b.place, b.bytes),
                    "tasks of its region need each other");
        }
    }
    return IPU_OK;
}

static ipu_status
check_rows(ipu__checker *c, const ipu_region *region)
{
    REQUIRE(c, region->grain > 0 && region->least > 0, "its region has no rows");
    for (uint32_t i = 0; i < region->count; i++) {
        c->at = region->first + i;
        const ipu_kernel_spec *spec = spec_of(c, c->at);
        REQUIRE(c, spec->rows.run != NULL && spec->rows.count == region->rows,
                "it has not the rows of its region");
        REQUIRE(c, spec->rows.workspace_bytes <= c->program->part_bytes,
                "the workspace of its rows is too small");
        for (uint32_t k = 0; k < region->count; k++) {
            IPU_TRY(check_parts(c, c->at, region->first + k));
        }
    }
    return IPU_OK;
}

/* That the tasks do all rows of an instruction, or all of it, once. */
static ipu_status
check_done(ipu__checker *c, const ipu_region *region)
{
    const ipu_kernel_spec *spec = spec_of(c, c->at);
    int64_t rows = 0;
    int64_t wholes = 0;
    for (uint32_t t = 0; t < region->task_count; t++) {
        ipu_region_task task = region->tasks[t];
        if (c->at < task.first || c->at >= (size_t)task.first + task.count) {
            continue;
        }
        wholes += task.end == 0;
        rows += task.end - task.begin;
        REQUIRE(c,
                task.end == 0 ||
                    (task.count == 1 && task.begin >= 0 && task.begin < task.end &&
                     spec->rows.run != NULL && task.end <= spec->rows.count),
                "a task of its region has rows that it has not");
        for (uint32_t u = 0; u < t; u++) {
            ipu_region_task other = region->tasks[u];
            REQUIRE(c,
                    task.first != other.first || task.end <= other.begin ||
                        other.end <= task.begin,
                    "two tasks of its region do the same");
        }
    }
    REQUIRE(c, wholes == 1 ? rows == 0 : wholes == 0 && rows == spec->rows.count,
            "the tasks of its region do not do all of it");
    REQUIRE(c,
            (wholes == 1 ? spec->workspace_bytes : spec->rows.workspace_bytes) <=
                c->program->part_bytes,
            "the workspace of its task is too small");
    return wholes == 1 ? IPU_OK : check_parts(c, c->at, c->at);
}

/* Which task does an instruction as a whole; parts of one count as one. */
static uint32_t
task_of(const ipu_region *region, size_t at)
{
    uint32_t t = 0;
    while (t < region->task_count &&
           (at < region->tasks[t].first ||
            at >= (size_t)region->tasks[t].first + region->tasks[t].count)) {
        t++;
    }
    return t;
}

static ipu_status
check_tasks(ipu__checker *c, const ipu_region *region)
{
    for (uint32_t t = 0; t < region->task_count; t++) {
        ipu_region_task task = region->tasks[t];
        REQUIRE(c,
                task.count > 0 && task.first >= region->first &&
                    task.first - region->first + task.count <= region->count,
                "a task of its region lies outside");
    }
    for (uint32_t i = 0; i < region->count; i++) {
        c->at = region->first + i;
        IPU_TRY(check_done(c, region));
        for (uint32_t k = 0; k < i; k++) {
            size_t other = region->first + k;
            if (task_of(region, c->at) != task_of(region, other)) {
                IPU_TRY(check_apart(c, c->at, other));
            }
        }
    }
    return IPU_OK;
}

static ipu_status
check_region(ipu__checker *c, uint32_t number)
{
    const ipu_region *region = &c->stream->regions.items[number];
    size_t count = c->stream->instructions.count;
    c->at = region->first;
    REQUIRE(c,
            region->count > 0 && region->first < count &&
                region->count <= count - region->first,
            "its region ends outside of the stream");
    for (uint32_t i = 0; i < region->count; i++) {
        const ipu_instruction *instruction =
            &c->stream->instructions.items[region->first + i];
        c->at = region->first + i;
        REQUIRE(c,
                instruction->kind == IPU_INSTRUCTION_KERNEL &&
                    instruction->region == number + 1,
                "it is not a kernel of its region");
    }
    return region->rows > 0 ? check_rows(c, region) : check_tasks(c, region);
}

/* That nothing gets into a region but by its first instruction. */
static ipu_status
check_entries(ipu__checker *c)
{
    for (size_t i = 0; i < c->stream->instructions.count; i++) {
        const ipu_instruction *jump = &c->stream->instructions.items[i];
        uint32_t branches =
            jump->kind == IPU_INSTRUCTION_SWITCH ? jump->branch_count : 0;
        c->at = i;
        if (jump->kind == IPU_INSTRUCTION_KERNEL) {
            REQUIRE(c, jump->region <= c->stream->regions.count, "it has no region");
            continue;
        }
        for (uint32_t k = 0; k <= branches; k++) {
            int32_t target = k < branches ? jump->branches[k] : jump->target;
            uint32_t region = c->stream->instructions.items[target].region;
            REQUIRE(c,
                    region == 0 || (region <= c->stream->regions.count &&
                                    c->stream->regions.items[region - 1].first ==
                                        (uint32_t)target),
                    "it jumps into a region");
        }
    }
    return IPU_OK;
}

ipu_status
ipu__verify_regions(ipu__checker *c, size_t number)
{
    c->number = number;
    c->stream = &c->program->streams.items[number];
    IPU_TRY(check_entries(c));
    for (uint32_t i = 0; i < c->stream->regions.count; i++) {
        IPU_TRY(check_region(c, i));
    }
    return IPU_OK;
}
