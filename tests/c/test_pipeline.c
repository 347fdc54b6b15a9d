/* SPDX-License-Identifier: MIT
 *
 * Schedules: the worked time steps, legal counts and stash depths; every schedule over
 * mappings and counts; rings counted by hand; text there and back; the checker's own
 * teeth: each way to break a schedule must be found; failed allocations. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "pipeline/schedule.h"

enum { MOST_STAGES = 16 };

static const char *const names[] = {"Grouped", "Interleaved",     "Sequential", "GPipe",
                                    "1F1B",    "Interleaved1F1B", "ZeroBubble"};
enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

static const uint32_t own_ipus[MOST_STAGES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                               8, 9, 10, 11, 12, 13, 14, 15};

static ipu_schedule_request
plain(const char *name, uint32_t stages, uint32_t micro_batches, bool is_training)
{
    return (ipu_schedule_request){.name = name,
                                  .stage_count = stages,
                                  .ipus = own_ipus,
                                  .micro_batches = micro_batches,
                                  .is_training = is_training};
}

static ipu_schedule *
build(ipu_ctx *ctx, ipu_schedule_request request)
{
    ipu_schedule *schedule = NULL;
    CHECK_OK(ctx, ipu_schedule_create(ctx, &request, &schedule));
    return schedule;
}

/* The time step of an action, or -1. */
static int64_t
time_of(const ipu_schedule *schedule, ipu_action_kind kind, uint32_t stage,
        uint32_t micro_batch)
{
    const ipu_action_list *list = &schedule->lists[schedule->ipus[stage]];
    for (size_t i = 0; i < list->count; i++) {
        const ipu_action *a = &list->items[i];
        if (a->kind == kind && a->stage == stage && a->micro_batch == micro_batch) {
            return a->time;
        }
    }
    return -1;
}

/* --- what is legal, and when things run ------------------------------------------- */

static void
test_legal_counts(ipu_ctx *ctx)
{
    for (uint32_t n = 1; n <= MOST_STAGES; n++) {
        const struct {
            const char *name;
            bool is_training;
            uint32_t length;
        } cases[] = {
            {"Grouped", true, 2 * n},     {"Grouped", false, n},
            {"Interleaved", true, n},     {"Interleaved", false, n},
            {"Sequential", true, 1},      {"Sequential", false, 1},
            {"GPipe", true, 1},           {"1F1B", true, 1},
            {"Interleaved1F1B", true, 1}, {"ZeroBubble", true, 1},
        };
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            ipu_schedule_request r = plain(cases[i].name, n, 0, cases[i].is_training);
            uint32_t length = 0;
            CHECK_OK(ctx, ipu_schedule_overlap(ctx, &r, &length));
            CHECK(length == cases[i].length);
            for (r.micro_batches = 0; r.micro_batches <= 4 * n; r.micro_batches++) {
                bool is_legal = r.micro_batches > 0 && r.micro_batches % length == 0;
                ipu_schedule *schedule = NULL;
                ipu_status status = ipu_schedule_create(ctx, &r, &schedule);
                ipu_schedule_free(ctx, schedule);
                CHECK(status == (is_legal ? IPU_OK : IPU_STATUS_FAILED_PRECONDITION));
                ipu_ctx_clear(ctx);
            }
        }
    }
}

static void
test_shared_ipus(ipu_ctx *ctx)
{
    const struct {
        const char *name;
        bool is_training;
        uint32_t ipus[4];
        ipu_status status;
        uint32_t length;
    } cases[] = {
        {"Grouped", true, {0, 0, 1, 1}, IPU_OK, 8},
        {"Interleaved", false, {0, 1, 0, 1}, IPU_OK, 2},
        {"Interleaved", false, {0, 0, 0, 0}, IPU_OK, 1},
        {"Interleaved", false, {0, 1, 2, 0}, IPU_OK, 2},
        {"Interleaved", true, {0, 1, 0, 1}, IPU_STATUS_UNIMPLEMENTED, 0},
        {"Interleaved1F1B", true, {0, 1, 0, 1}, IPU_OK, 2},
        {"Interleaved1F1B", true, {0, 1, 1, 0}, IPU_STATUS_FAILED_PRECONDITION, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ipu_schedule_request r = plain(cases[i].name, 4, 8, cases[i].is_training);
        r.ipus = cases[i].ipus;
        uint32_t length = 0;
        CHECK(ipu_schedule_overlap(ctx, &r, &length) == cases[i].status);
        CHECK(cases[i].status != IPU_OK || length == cases[i].length);
        ipu_ctx_clear(ctx);
    }
}

static void
test_errors(ipu_ctx *ctx)
{
    ipu_schedule *schedule;
    ipu_schedule_request r = plain("Grouped", 2, 6, true);
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_FAILED_PRECONDITION);
    CHECK(strstr(ctx->message,
                 "The number of iterations of the pipeline must be a "
                 "multiple of 4, but it is 6. This number might be called "
                 "`gradient_accumulation_count`, ") != NULL);
    CHECK(strstr(ctx->message, "the nearest legal numbers are 4 and 8") != NULL);
    ipu_ctx_clear(ctx);
    r.micro_batches = 0;
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_FAILED_PRECONDITION);
    CHECK(strstr(ctx->message, "must be at least 4, but it is 0") != NULL);
    ipu_ctx_clear(ctx);
    r.name = "Diagonal";
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_VALUE);
    ipu_ctx_clear(ctx);
    r = plain("Sequential", 2, UINT32_MAX, true);
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_RESOURCE_EXHAUSTED);
    ipu_ctx_clear(ctx);
    const uint32_t gap[] = {0, 2, 2};
    r = plain("Sequential", 3, 1, true);
    r.positions = gap;
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_VALUE);
    ipu_ctx_clear(ctx);
    const uint32_t far[] = {0, UINT32_MAX, 1};
    r = plain("Sequential", 3, 1, true);
    r.ipus = far;
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_VALUE);
    ipu_ctx_clear(ctx);
    r = plain("Sequential", 0, 1, true);
    CHECK(ipu_schedule_create(ctx, &r, &schedule) == IPU_STATUS_VALUE);
    ipu_ctx_clear(ctx);
}

/* Micro-batch m makes pass s at m + s, at 2m + s, or at 2Nm + s. */
static void
test_time_steps(ipu_ctx *ctx)
{
    static const uint32_t between[] = {1, 2, 0};
    for (uint32_t n = 1; n <= 8; n++) {
        for (int kind = 0; kind < 3; kind++) {
            uint32_t distance = between[kind] == 0 ? 2 * n : between[kind];
            uint32_t count = 2 * n * 3;
            ipu_schedule *s = build(ctx, plain(names[kind], n, count, true));
            CHECK(s->time_steps == distance * (count - 1) + 2 * n);
            CHECK(s->is_one_at_a_time == (kind != 0));
            for (uint32_t k = 0; k < n; k++) {
                static const uint32_t per_stage[] = {2, 1, 0};
                CHECK(ipu_schedule_fifo_depth(s, k) == per_stage[kind] * (n - 1 - k));
                for (uint32_t m = 0; m < count; m++) {
                    CHECK(time_of(s, IPU_ACTION_FORWARD, k, m) == distance * m + k);
                    CHECK(time_of(s, IPU_ACTION_BACKWARD, k, m) ==
                          distance * m + 2 * n - 1 - k);
                }
            }
            ipu_schedule_measures measures;
            static const uint32_t in_flight[] = {2, 1, 0};
            CHECK_OK(ctx, ipu_schedule_measure(ctx, s, &measures));
            CHECK(measures.in_flight == (kind == 2 ? 1 : in_flight[kind] * n));
            ipu_schedule_free(ctx, s);
        }
        ipu_schedule *s = build(ctx, plain("Grouped", n, 4 * n, false));
        CHECK(s->time_steps == 5 * n - 1);
        CHECK(s->stash_depths[0] == 0);
        CHECK(time_of(s, IPU_ACTION_FORWARD, n - 1, 3) == n + 2);
        ipu_schedule_free(ctx, s);
    }
}

/* Times and stashes as the papers have them, in time steps of one pass each. */
static void
test_native_schedules(ipu_ctx *ctx)
{
    for (uint32_t n = 2; n <= 8; n++) {
        for (uint32_t m = n; m <= 4 * n; m += n) {
            ipu_schedule *s = build(ctx, plain("GPipe", n, m, true));
            CHECK(s->time_steps == 2 * (m + n - 1));
            CHECK(s->stash_depths[0] == m && s->stash_depths[n - 1] == m);
            ipu_schedule_free(ctx, s);
            s = build(ctx, plain("1F1B", n, m, true));
            CHECK(s->time_steps == 2 * (m + n - 1));
            CHECK(s->stash_depths[0] == n && s->stash_depths[n - 1] == 1);
            ipu_schedule_free(ctx, s);
            s = build(ctx, plain("ZeroBubble", n, m, true));
            CHECK(s->time_steps == 3 * m + n - 1);
            for (uint32_t k = 0; k < n; k++) {
                CHECK(s->stash_depths[k] == n);
            }
            ipu_schedule_free(ctx, s);
        }
    }
    for (uint32_t ipus = 2; ipus <= 4; ipus++) {
        uint32_t mapping[MOST_STAGES];
        for (uint32_t k = 0; k < MOST_STAGES; k++) {
            mapping[k] = k % ipus;
        }
        for (uint32_t each = 2; each <= 4; each++) {
            ipu_schedule_request r =
                plain("Interleaved1F1B", each * ipus, 3 * ipus, true);
            r.ipus = mapping;
            ipu_schedule *s = build(ctx, r);
            CHECK(s->time_steps == 2 * (each * r.micro_batches + ipus - 1));
            ipu_schedule_free(ctx, s);
        }
    }
}

/* --- rings ------------------------------------------------------------------------ */

/* Runs the timetable with a ring of `depth` slots: whether each write finds its slot
 * empty and each read finds its micro-batch. What shares a time step on two IPUs
 * happens at once: the write first. */
static bool
fits(const ipu_schedule *s, ipu_routine writer, ipu_routine reader, uint32_t depth)
{
    uint32_t slots[64];
    memset(slots, 0xff, sizeof(slots));
    const ipu_action_list *writes = &s->lists[s->ipus[writer.stage]];
    const ipu_action_list *reads = &s->lists[s->ipus[reader.stage]];
    bool is_same = writes == reads;
    size_t next[2] = {0, 0};
    while (next[0] < writes->count || (!is_same && next[1] < reads->count)) {
        bool takes_write = is_same || next[1] == reads->count ||
                           (next[0] < writes->count &&
                            writes->items[next[0]].time <= reads->items[next[1]].time);
        const ipu_action *a =
            takes_write ? &writes->items[next[0]++] : &reads->items[next[1]++];
        uint32_t *slot = &slots[a->micro_batch % depth];
        if (takes_write && a->kind == writer.kind && a->stage == writer.stage) {
            if (*slot != UINT32_MAX) {
                return false;
            }
            *slot = a->micro_batch;
        } else if ((is_same || !takes_write) && a->kind == reader.kind &&
                   a->stage == reader.stage) {
            if (*slot != a->micro_batch) {
                return false;
            }
            *slot = UINT32_MAX;
        }
    }
    return true;
}

static void
check_ring(ipu_ctx *ctx, const ipu_schedule *s, ipu_routine writer, ipu_routine reader)
{
    uint32_t depth = 0;
    CHECK_OK(ctx, ipu_schedule_slots(ctx, s, writer, reader, &depth));
    CHECK(fits(s, writer, reader, depth));
    CHECK(depth == 1 || !fits(s, writer, reader, depth - 1));
}

static void
test_rings(ipu_ctx *ctx)
{
    const uint32_t shared[] = {0, 1, 0, 1};
    for (size_t i = 0; i < NAME_COUNT; i++) {
        for (int mapping = 0; mapping < 2; mapping++) {
            ipu_schedule_request r = plain(names[i], 4, 16, true);
            r.ipus = mapping == 0 ? own_ipus : shared;
            if (mapping == 1 && strcmp(names[i], "Interleaved") == 0) {
                continue;
            }
            ipu_schedule *s = build(ctx, r);
            ipu_action_kind back = strcmp(names[i], "ZeroBubble") == 0
                                       ? IPU_ACTION_BACKWARD_INPUT
                                       : IPU_ACTION_BACKWARD;
            ipu_action_kind last = strcmp(names[i], "ZeroBubble") == 0
                                       ? IPU_ACTION_BACKWARD_WEIGHT
                                       : IPU_ACTION_BACKWARD;
            for (uint32_t from = 0; from < 4; from++) {
                ipu_routine forward = {IPU_ACTION_FORWARD, from};
                check_ring(ctx, s, forward, (ipu_routine){last, from});
                uint32_t depth;
                CHECK_OK(ctx, ipu_schedule_slots(ctx, s, forward,
                                                 (ipu_routine){last, from}, &depth));
                CHECK(depth == s->stash_depths[from]);
                for (uint32_t to = from + 1; to < 4; to++) { /* skips included */
                    check_ring(ctx, s, forward, (ipu_routine){IPU_ACTION_FORWARD, to});
                    check_ring(ctx, s, (ipu_routine){back, to},
                               (ipu_routine){back, from});
                    check_ring(ctx, s, forward, (ipu_routine){back, to});
                }
            }
            uint32_t depth;
            CHECK(ipu_schedule_slots(ctx, s, (ipu_routine){IPU_ACTION_FORWARD, 1},
                                     (ipu_routine){IPU_ACTION_FORWARD, 0},
                                     &depth) == IPU_STATUS_INVALID_ARGUMENT);
            ipu_ctx_clear(ctx);
            ipu_schedule_free(ctx, s);
        }
    }
}

/* --- text ------------------------------------------------------------------------- */

static const char interleaved_text[] =
    "schedule: Interleaved\n"
    "training: yes\n"
    "one micro-batch at a time: yes\n"
    "micro-batches: 2\n"
    "time steps: 6\n"
    "stage:    0 1\n"
    "position: 0 1\n"
    "ipu:      0 1\n"
    "stash:    2 1\n"
    "\n"
    "step  | 0     | 1     | 2     | 3     | 4     | 5     |\n"
    "ipu 0 | F0(0) |       | F0(1) | B0(0) |       | B0(1) |\n"
    "ipu 1 |       | F1(0) | B1(0) | F1(1) | B1(1) |       |\n";

enum { TEXT_ROOM = 2 * sizeof(interleaved_text) };

/* interleaved_text with one piece replaced. */
static void
replace(char *text, const char *piece, const char *by)
{
    const char *at = strstr(interleaved_text, piece);
    CHECK(at != NULL);
    int before = (int)(at - interleaved_text);
    snprintf(text, TEXT_ROOM, "%.*s%s%s", before, interleaved_text, by,
             at + strlen(piece));
}

static void
check_round_trip(ipu_ctx *ctx, const ipu_schedule *schedule)
{
    char *first = NULL;
    char *second = NULL;
    size_t first_bytes;
    size_t second_bytes;
    ipu_schedule *read = NULL;
    CHECK_OK(ctx, ipu_schedule_print(ctx, schedule, &first, &first_bytes));
    CHECK_OK(ctx, ipu_schedule_parse(ctx, first, &read));
    CHECK_OK(ctx, ipu_schedule_check(ctx, read));
    CHECK_OK(ctx, ipu_schedule_print(ctx, read, &second, &second_bytes));
    CHECK(strcmp(first, second) == 0);
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *a = &schedule->lists[ipu];
        const ipu_action_list *b = &read->lists[ipu];
        CHECK(a->count == b->count &&
              (a->count == 0 ||
               memcmp(a->items, b->items, a->count * sizeof(ipu_action)) == 0));
    }
    ipu_free(ctx, first, first_bytes);
    ipu_free(ctx, second, second_bytes);
    ipu_schedule_free(ctx, read);
}

static void
test_text(ipu_ctx *ctx)
{
    ipu_schedule *schedule = build(ctx, plain("Interleaved", 2, 2, true));
    char *text;
    size_t bytes;
    CHECK_OK(ctx, ipu_schedule_print(ctx, schedule, &text, &bytes));
    CHECK(strcmp(text, interleaved_text) == 0);
    ipu_free(ctx, text, bytes);
    ipu_schedule_free(ctx, schedule);
}

static void
test_unreadable_text(ipu_ctx *ctx)
{
    static const struct {
        const char *piece, *by;
    } cases[] = {
        {"schedule: ", "schedule "},
        {"training: yes", "training: maybe"},
        {"micro-batches: 2", "micro-batches: 99999999999"},
        {"time steps: 6", "time steps: 5"},
        {"stage:    0 1", "stage:    1 0"},
        {"ipu:      0 1", "ipu:      0"},
        {"position: 0 1", "position: 0 9"},
        {"F0(1)", "X0(1)"},
        {"F0(1)", "F0 1"},
        {"F0(1)", "F(1)"},
        {"ipu 1 |", "ipu 2 |"},
        {"ipu 1 |", "ipu 0 |"},
        {"step", "time"},
        {"B1(1) |       |", "B1(1) |"},
        {"B1(1) |       |", "B1(1) |       | F1(0)"},
        {"ipu 1 |       | F1(0) | B1(0) | F1(1) | B1(1) |       |\n", ""},
        {"ipu:      0 1", "ipu:      0 2"},
        {"ipu:      0 1", "ipu:      0 70000"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ipu_schedule *schedule = NULL;
        char text[TEXT_ROOM];
        replace(text, cases[i].piece, cases[i].by);
        CHECK(ipu_schedule_parse(ctx, text, &schedule) != IPU_OK);
        CHECK(schedule == NULL);
        ipu_ctx_clear(ctx);
    }
}

/* Text that is cut off anywhere is refused, or is a schedule that is refused. */
static void
test_cut_text(ipu_ctx *ctx)
{
    char text[sizeof(interleaved_text)];
    for (size_t length = 0; length + 4 < sizeof(text); length++) {
        memcpy(text, interleaved_text, length);
        text[length] = '\0';
        ipu_schedule *schedule = NULL;
        if (ipu_schedule_parse(ctx, text, &schedule) == IPU_OK) {
            CHECK(ipu_schedule_check(ctx, schedule) == IPU_STATUS_INVALID_ARGUMENT);
        }
        CHECK(ctx->status != IPU_OK);
        ipu_ctx_clear(ctx);
        ipu_schedule_free(ctx, schedule);
    }
}

/* --- the checker's teeth ---------------------------------------------------------- */

/* interleaved_text with one piece replaced fails with a message that holds `why`. */
static void
refuse(ipu_ctx *ctx, const char *piece, const char *by, const char *why)
{
    char text[TEXT_ROOM];
    replace(text, piece, by);
    ipu_schedule *schedule = NULL;
    CHECK_OK(ctx, ipu_schedule_parse(ctx, text, &schedule));
    CHECK(ipu_schedule_check(ctx, schedule) == IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx->message, why) != NULL);
    if (strstr(ctx->message, why) == NULL) {
        fprintf(stderr, "'%s' for '%s': %s\n", by, piece, ctx->message);
    }
    ipu_ctx_clear(ctx);
    ipu_schedule_free(ctx, schedule);
}

static void
test_broken_schedules(ipu_ctx *ctx)
{
    refuse(ctx, "| F1(1) |", "|       |", "F1(1) is missing");
    refuse(ctx, "| F0(1) |", "| F0(0) |", "F0(0) is there twice");
    refuse(ctx, "ipu 0 | F0(0) |       | F0(1) |", "ipu 0 | F0(1) |       | F0(0) |",
           "F0(1) comes where micro-batch 0 of stage 0 is the next one");
    refuse(ctx, "F0(1)", "F1(1)", "its stage is on IPU 1");
    refuse(ctx, "F0(1)", "F2(1)", "is of no stage");
    refuse(ctx, "F0(1)", "F0(2)", "is of no micro-batch");
    refuse(ctx, "stash:    2 1", "stash:    1 1",
           "at F0(1) stage 0 keeps 2 micro-batches, but its stash holds 1");
    refuse(ctx, "| F0(1) | B0(0) |", "|       | F0(1) B0(0) |",
           "F0(1) and B0(0) share time step 3");
    refuse(ctx, "| F0(0) |       |", "|       | F0(0) |",
           "F1(0) is in time step 1, but F0(0), which it waits for, in time step 1");
    refuse(ctx, "B1(0) | F1(1) | B1(1)", "I1(0) | F1(1) | B1(0)", "come in parts");
    refuse(ctx, "B1(0) | F1(1) | B1(1)", "B1(0) | F1(1) | I1(0)", "I1(1) is missing");
    refuse(ctx, "training: yes", "training: no", "goes back, but nothing is trained");
}

/* Two IPUs that wait for each other, and time steps that hide it. */
static void
test_deadlock(ipu_ctx *ctx)
{
    static const char text[] =
        "schedule: by-hand\ntraining: yes\none micro-batch at a time: yes\n"
        "micro-batches: 2\ntime steps: 6\nstage: 0 1\nposition: 0 1\nipu: 0 1\n"
        "stash: 2 2\n\nstep |\n"
        "ipu 0 | F0(0) |       | B0(0) | F0(1) |       | B0(1) |\n"
        "ipu 1 |       | F1(0) | F1(1) | B1(0) | B1(1) |       |\n";
    ipu_schedule *schedule = NULL;
    CHECK_OK(ctx, ipu_schedule_parse(ctx, text, &schedule));
    CHECK(ipu_schedule_check(ctx, schedule) == IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx->message, "IPU 0 is at B0(0) and waits for B1(0); IPU 1 is at "
                               "F1(1) and waits for F0(1)") != NULL);
    ipu_ctx_clear(ctx);
    ipu_schedule_free(ctx, schedule);
}

/* --- all schedules, at random ----------------------------------------------------- */

static uint32_t
next_random(uint64_t *state, uint32_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state % limit);
}

/* Swaps two neighbours that differ, or drops or repeats one: never right. */
static void
spoil(ipu_ctx *ctx, ipu_schedule *s, uint64_t *state)
{
    ipu_action_list *list = &s->lists[next_random(state, s->ipu_count)];
    if (list->count < 2) {
        return;
    }
    size_t at = next_random(state, (uint32_t)list->count - 1);
    ipu_action kept = list->items[at];
    size_t count = list->count;
    switch (next_random(state, 3)) {
    case 0:
        list->items[at].micro_batch = (kept.micro_batch + 1) % s->micro_batches;
        if (s->micro_batches == 1) {
            list->items[at].stage = s->stage_count;
        }
        break;
    case 1:
        list->count--;
        break;
    default:
        list->items[at] = list->items[at + 1];
        break;
    }
    CHECK(ipu_schedule_check(ctx, s) == IPU_STATUS_INVALID_ARGUMENT);
    ipu_ctx_clear(ctx);
    list->items[at] = kept;
    list->count = count;
    CHECK_OK(ctx, ipu_schedule_check(ctx, s));
}

static void
test_random(ipu_ctx *ctx)
{
    uint64_t state = 88172645463325252U;
    int built = 0;
    for (int round = 0; round < 3000; round++) {
        uint32_t stages = 1 + next_random(&state, 9);
        uint32_t ipus = 1 + next_random(&state, stages);
        uint32_t mapping[MOST_STAGES];
        uint32_t positions[MOST_STAGES];
        bool is_dealt = next_random(&state, 2) == 0;
        for (uint32_t s = 0; s < stages; s++) {
            mapping[s] = is_dealt ? s % ipus : next_random(&state, ipus);
            bool is_beside = s > 0 && next_random(&state, 4) == 0;
            positions[s] = s == 0 ? 0 : positions[s - 1] + (is_beside ? 0 : 1);
        }
        ipu_schedule_request r = {.name = names[next_random(&state, NAME_COUNT)],
                                  .stage_count = stages,
                                  .ipus = mapping,
                                  .positions =
                                      next_random(&state, 2) == 0 ? NULL : positions,
                                  .is_training = next_random(&state, 3) != 0};
        uint32_t length;
        if (ipu_schedule_overlap(ctx, &r, &length) != IPU_OK) {
            ipu_ctx_clear(ctx);
            continue;
        }
        r.micro_batches = length * (1 + next_random(&state, 5));
        ipu_schedule *s = build(ctx, r);
        check_round_trip(ctx, s);
        spoil(ctx, s, &state);
        ipu_schedule_free(ctx, s);
        built++;
    }
    CHECK(built > 1500);
}

/* Text that somebody has scribbled in is refused, or is a schedule; nothing else. */
static void
test_scribbled_text(ipu_ctx *ctx)
{
    static const char marks[] = "0123456789FBIW()|: \n\tipustag\xff-";
    uint64_t state = 1234567;
    int read = 0;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof(interleaved_text)];
        memcpy(text, interleaved_text, sizeof(text));
        for (uint32_t n = 1 + next_random(&state, 3); n > 0; n--) {
            text[next_random(&state, sizeof(text) - 1)] =
                marks[next_random(&state, sizeof(marks) - 1)];
        }
        ipu_schedule *schedule = NULL;
        if (ipu_schedule_parse(ctx, text, &schedule) == IPU_OK &&
            ipu_schedule_check(ctx, schedule) == IPU_OK) {
            check_round_trip(ctx, schedule);
            ipu_schedule_measures measures;
            CHECK_OK(ctx, ipu_schedule_measure(ctx, schedule, &measures));
            read++;
        }
        ipu_ctx_clear(ctx);
        ipu_schedule_free(ctx, schedule);
    }
    CHECK(read > 100);
}

/* --- memory ----------------------------------------------------------------------- */

typedef struct failing {
    ipu_allocator real;
    long left; /* allocations until one fails; negative: never */
    size_t live_bytes;
} failing;

static void *
failing_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    failing *f = state;
    if (new_bytes > old_bytes && f->left >= 0 && f->left-- == 0) {
        return NULL;
    }
    f->live_bytes += new_bytes - old_bytes;
    return f->real.resize(f->real.state, pointer, old_bytes, new_bytes);
}

static ipu_status
use_everything(ipu_ctx *ctx, const char *name)
{
    ipu_schedule_request request = plain(name, 3, 6, true);
    ipu_schedule *schedule = NULL;
    ipu_schedule *read = NULL;
    char *text = NULL;
    size_t bytes = 0;
    uint32_t depth;
    ipu_schedule_measures measures;
    if (ipu_schedule_create(ctx, &request, &schedule) == IPU_OK &&
        ipu_schedule_print(ctx, schedule, &text, &bytes) == IPU_OK &&
        ipu_schedule_slots(ctx, schedule, (ipu_routine){IPU_ACTION_FORWARD, 0},
                           (ipu_routine){IPU_ACTION_FORWARD, 1}, &depth) == IPU_OK &&
        ipu_schedule_measure(ctx, schedule, &measures) == IPU_OK &&
        ipu_schedule_parse(ctx, text, &read) == IPU_OK) {
        ipu_schedule_free(ctx, read);
    }
    ipu_free(ctx, text, bytes);
    ipu_schedule_free(ctx, schedule);
    return ctx->status;
}

static void
test_failed_allocations(void)
{
    for (size_t i = 0; i < NAME_COUNT; i++) {
        for (long at = 0;; at++) {
            failing f = {.real = ipu_allocator_default(), .left = at};
            ipu_ctx ctx;
            ipu_ctx_init(&ctx, (ipu_allocator){failing_resize, &f});
            ipu_status status = use_everything(&ctx, names[i]);
            CHECK(f.live_bytes == 0);
            if (f.left >= 0) {
                CHECK_OK(&ctx, status);
                break;
            }
            CHECK(status == IPU_STATUS_OUT_OF_MEMORY);
        }
    }
}

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_legal_counts(&ctx);
    test_shared_ipus(&ctx);
    test_errors(&ctx);
    test_time_steps(&ctx);
    test_native_schedules(&ctx);
    test_rings(&ctx);
    test_text(&ctx);
    test_unreadable_text(&ctx);
    test_cut_text(&ctx);
    test_broken_schedules(&ctx);
    test_deadlock(&ctx);
    test_random(&ctx);
    test_scribbled_text(&ctx);
    test_failed_allocations();
    return CHECK_DONE();
}
