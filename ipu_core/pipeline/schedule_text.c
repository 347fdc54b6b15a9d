/* SPDX-License-Identifier: MIT
 *
 * Schedules as text:
 *
 *     schedule: Interleaved
 *     training: yes
 *     one micro-batch at a time: yes
 *     micro-batches: 2
 *     time steps: 6
 *     stage:    0 1
 *     position: 0 1
 *     ipu:      0 1
 *     stash:    2 1
 *
 *     step  | 0     | 1     | 2     | 3     | 4     | 5     |
 *     ipu 0 | F0(0) |       | F0(1) | B0(0) |       | B0(1) |
 *     ipu 1 |       | F1(0) | B1(0) | F1(1) | B1(1) |       |
 *
 * A row for each IPU, a column for each time step; F0(1) is the forward of stage 0 with
 * micro-batch 1, B a backward, I and W its input and its weight part. The work of
 * an IPU in one time step stands in one cell, in order. */
#include "base/text.h"
#include "pipeline/schedule_impl.h"

#include <string.h>

static const char letters[] = {
#define X(name, letter) letter,
    IPU_ACTION_LIST(X)
#undef X
};

char
ipu_action_letter(ipu_action_kind kind)
{
    return letters[kind];
}

bool
ipu_action_of_letter(char letter, ipu_action_kind *out)
{
    const char *found = memchr(letters, letter, sizeof(letters));
    if (found != NULL) {
        *out = (ipu_action_kind)(found - letters);
    }
    return found != NULL;
}

/* --- printing -------------------------------------------------------------------- */

static uint32_t
digits(uint32_t number)
{
    uint32_t count = 1;
    for (; number >= 10; number /= 10) {
        count++;
    }
    return count;
}

static uint32_t
action_width(const ipu_action *action)
{
    return 3 + digits(action->stage) + digits(action->micro_batch);
}

/* Of the widest cell. */
static uint32_t
cell_width(const ipu_schedule *schedule)
{
    uint32_t widest = digits(schedule->time_steps);
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &schedule->lists[ipu];
        uint32_t width = 0;
        for (size_t i = 0; i < list->count; i++) {
            const ipu_action *action = &list->items[i];
            bool is_first = i == 0 || action->time != action[-1].time;
            width = (is_first ? 0 : width + 1) + action_width(action);
            widest = width > widest ? width : widest;
        }
    }
    return widest;
}

static void
print_per_stage(ipu_text *text, const ipu_schedule *schedule, const char *title,
                const uint32_t *numbers, uint32_t width)
{
    ipu_text_print(text, "%-9s", title);
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        ipu_text_print(text, " %*u", (int)width, numbers == NULL ? s : numbers[s]);
    }
    ipu_text_print(text, "\n");
}

static void
print_row(ipu_text *text, const ipu_schedule *schedule, uint32_t ipu, uint32_t width)
{
    const ipu_action_list *list = &schedule->lists[ipu];
    size_t next = 0;
    ipu_text_print(text, "ipu %-*u |", (int)digits(schedule->ipu_count - 1), ipu);
    for (uint32_t time = 0; time < schedule->time_steps; time++) {
        uint32_t used = 0;
        for (; next < list->count && list->items[next].time == time; next++) {
            const ipu_action *action = &list->items[next];
            ipu_text_print(text, " %c%u(%u)", letters[action->kind], action->stage,
                           action->micro_batch);
            used += 1 + action_width(action);
        }
        ipu_text_print(text, "%*s |", (int)(width + 1 - used), "");
    }
    ipu_text_print(text, "\n");
}

ipu_status
ipu_schedule_print(ipu_ctx *ctx, const ipu_schedule *schedule, char **out,
                   size_t *out_bytes)
{
    ipu_text text;
    ipu_text_init(&text, ctx);
    ipu_text_print(&text, "schedule: %s\n", schedule->name);
    ipu_text_print(&text, "training: %s\n", schedule->is_training ? "yes" : "no");
    ipu_text_print(&text, "one micro-batch at a time: %s\n",
                   schedule->is_one_at_a_time ? "yes" : "no");
    ipu_text_print(&text, "micro-batches: %u\n", schedule->micro_batches);
    ipu_text_print(&text, "time steps: %u\n", schedule->time_steps);
    uint32_t width = 1;
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        const uint32_t numbers[] = {s, schedule->ipus[s], schedule->stash_depths[s]};
        for (int i = 0; i < 3; i++) {
            width = digits(numbers[i]) > width ? digits(numbers[i]) : width;
        }
    }
    print_per_stage(&text, schedule, "stage:", NULL, width);
    print_per_stage(&text, schedule, "position:", schedule->positions, width);
    print_per_stage(&text, schedule, "ipu:", schedule->ipus, width);
    print_per_stage(&text, schedule, "stash:", schedule->stash_depths, width);
    width = cell_width(schedule);
    ipu_text_print(&text, "\nstep%*s |", (int)digits(schedule->ipu_count - 1), "");
    for (uint32_t time = 0; time < schedule->time_steps; time++) {
        ipu_text_print(&text, " %-*u |", (int)width, time);
    }
    ipu_text_print(&text, "\n");
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        print_row(&text, schedule, ipu, width);
    }
    return ipu_text_finish(&text, out, out_bytes);
}

/* --- parsing --------------------------------------------------------------------- */

/* Each IPU has its row, and each row its cells, so that a schedule is not larger than
 * its text. */
enum { NAME_CHARS = 64, MAX_TIME_STEPS = 1 << 28 };

typedef struct parser {
    ipu_ctx *ctx;
    const char *at;
    uint32_t line;
} parser;

typedef IPU_ARRAY(uint32_t) number_list;

typedef struct header {
    char name[NAME_CHARS];
    bool is_training;
    bool is_one_at_a_time;
    uint32_t micro_batches;
    uint32_t time_steps;
    number_list stages, positions, ipus, stashes;
} header;

static void
skip_blanks(parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\r') {
        parser->at++;
    }
}

static ipu_status
expect(parser *parser, const char *word)
{
    skip_blanks(parser);
    size_t length = strlen(word);
    IPU_FAIL_IF(parser->ctx, strncmp(parser->at, word, length) != 0, INVALID_ARGUMENT,
                "line %u of the schedule: expected '%s' at '%.20s'", parser->line, word,
                parser->at);
    parser->at += length;
    return IPU_OK;
}

static void
skip_lines(parser *parser)
{
    skip_blanks(parser);
    while (*parser->at == '\n') {
        parser->at++;
        parser->line++;
        skip_blanks(parser);
    }
}

/* Ends this line, and passes over empty ones. */
static ipu_status
end_line(parser *parser)
{
    skip_blanks(parser);
    IPU_FAIL_IF(parser->ctx, *parser->at != '\n' && *parser->at != '\0',
                INVALID_ARGUMENT, "line %u of the schedule: '%.20s' is too much",
                parser->line, parser->at);
    skip_lines(parser);
    return IPU_OK;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static ipu_status
parse_number(parser *parser, uint32_t limit, uint32_t *out)
{
    uint64_t number = 0;
    skip_blanks(parser);
    IPU_FAIL_IF(parser->ctx, !is_digit(*parser->at), INVALID_ARGUMENT,
                "line %u of the schedule: expected a number at '%.20s'", parser->line,
                parser->at);
    for (; is_digit(*parser->at) && number <= limit; parser->at++) {
        number = 10 * number + (uint64_t)(*parser->at - '0');
    }
    IPU_FAIL_IF(parser->ctx, number > limit, INVALID_ARGUMENT,
                "line %u of the schedule: a number is at most %u here", parser->line,
                limit);
    *out = (uint32_t)number;
    return IPU_OK;
}

static ipu_status
parse_yes(parser *parser, const char *key, bool *out)
{
    IPU_TRY(expect(parser, key));
    skip_blanks(parser);
    *out = strncmp(parser->at, "yes", 3) == 0;
    IPU_TRY(expect(parser, *out ? "yes" : "no"));
    return end_line(parser);
}

static ipu_status
parse_numbers(parser *parser, const char *key, number_list *out)
{
    IPU_TRY(expect(parser, key));
    skip_blanks(parser);
    while (is_digit(*parser->at)) {
        uint32_t number;
        IPU_TRY(parse_number(parser, UINT32_MAX, &number));
        IPU_TRY(IPU_ARRAY_PUSH(parser->ctx, out, number));
        skip_blanks(parser);
    }
    return end_line(parser);
}

static ipu_status
parse_name(parser *parser, char *name)
{
    IPU_TRY(expect(parser, "schedule:"));
    skip_blanks(parser);
    size_t length = strcspn(parser->at, " \t\r\n");
    IPU_FAIL_IF(parser->ctx, length == 0 || length >= NAME_CHARS, INVALID_ARGUMENT,
                "line %u of the schedule: a name has 1 to %d characters", parser->line,
                NAME_CHARS - 1);
    memcpy(name, parser->at, length);
    name[length] = '\0';
    parser->at += length;
    return end_line(parser);
}

static ipu_status
check_header(parser *parser, const header *header)
{
    size_t count = header->stages.count;
    for (size_t i = 0; i < count; i++) {
        IPU_FAIL_IF(parser->ctx, header->stages.items[i] != i, INVALID_ARGUMENT,
                    "the schedule's stages are numbered 0, 1, 2, ...");
    }
    IPU_FAIL_IF(parser->ctx,
                header->positions.count != count || header->ipus.count != count ||
                    header->stashes.count != count,
                INVALID_ARGUMENT,
                "the schedule has %zu stages, %zu positions, %zu IPUs and %zu stashes",
                count, header->positions.count, header->ipus.count,
                header->stashes.count);
    uint64_t actions = (uint64_t)header->micro_batches * count;
    IPU_FAIL_IF(parser->ctx, actions > IPU_SCHEDULE_MAX_ACTIONS, INVALID_ARGUMENT,
                "%u micro-batches of %zu stages are more than %d actions",
                header->micro_batches, count, IPU_SCHEDULE_MAX_ACTIONS);
    return IPU_OK;
}

static ipu_status
parse_header(parser *parser, header *header)
{
    skip_lines(parser);
    IPU_TRY(parse_name(parser, header->name));
    IPU_TRY(parse_yes(parser, "training:", &header->is_training));
    IPU_TRY(parse_yes(parser, "one micro-batch at a time:", &header->is_one_at_a_time));
    IPU_TRY(expect(parser, "micro-batches:"));
    IPU_TRY(parse_number(parser, IPU_SCHEDULE_MAX_ACTIONS, &header->micro_batches));
    IPU_TRY(end_line(parser));
    IPU_TRY(expect(parser, "time steps:"));
    IPU_TRY(parse_number(parser, MAX_TIME_STEPS, &header->time_steps));
    IPU_TRY(end_line(parser));
    IPU_TRY(parse_numbers(parser, "stage:", &header->stages));
    IPU_TRY(parse_numbers(parser, "position:", &header->positions));
    IPU_TRY(parse_numbers(parser, "ipu:", &header->ipus));
    IPU_TRY(parse_numbers(parser, "stash:", &header->stashes));
    return check_header(parser, header);
}

static ipu_status
parse_action(parser *parser, uint32_t time, ipu_action *out)
{
    *out = (ipu_action){.time = time};
    IPU_FAIL_IF(parser->ctx, !ipu_action_of_letter(*parser->at, &out->kind),
                INVALID_ARGUMENT,
                "line %u of the schedule: expected an action at '%.20s'", parser->line,
                parser->at);
    parser->at++;
    IPU_TRY(parse_number(parser, UINT32_MAX, &out->stage));
    IPU_TRY(expect(parser, "("));
    IPU_TRY(parse_number(parser, UINT32_MAX, &out->micro_batch));
    return expect(parser, ")");
}

static ipu_status
parse_row(parser *parser, ipu_schedule *schedule, uint32_t ipu)
{
    uint32_t number;
    IPU_TRY(expect(parser, "ipu"));
    IPU_TRY(parse_number(parser, schedule->ipu_count - 1, &number));
    IPU_FAIL_IF(parser->ctx, number != ipu, INVALID_ARGUMENT,
                "line %u of the schedule: expected the row of IPU %u", parser->line,
                ipu);
    IPU_TRY(expect(parser, "|"));
    ipu_action_list *list = &schedule->lists[ipu];
    uint32_t time = 0;
    for (;;) {
        skip_blanks(parser);
        if (*parser->at == '\n' || *parser->at == '\0') {
            break;
        }
        if (*parser->at == '|') {
            parser->at++;
            time++;
            continue;
        }
        IPU_FAIL_IF(parser->ctx, time == schedule->time_steps, INVALID_ARGUMENT,
                    "line %u of the schedule: '%.20s' is after the last time step",
                    parser->line, parser->at);
        ipu_action action;
        IPU_TRY(parse_action(parser, time, &action));
        IPU_TRY(IPU_ARRAY_PUSH(parser->ctx, list, action));
    }
    IPU_FAIL_IF(
        parser->ctx, time != schedule->time_steps, INVALID_ARGUMENT,
        "line %u of the schedule: %u cells, each with its '|', but %u time steps",
        parser->line, time, schedule->time_steps);
    return end_line(parser);
}

static ipu_status
parse_rows(parser *parser, ipu_schedule *schedule)
{
    IPU_TRY(expect(parser, "step"));
    parser->at += strcspn(parser->at, "\n");
    IPU_TRY(end_line(parser));
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        IPU_TRY(parse_row(parser, schedule, ipu));
    }
    IPU_FAIL_IF(parser->ctx, *parser->at != '\0', INVALID_ARGUMENT,
                "line %u of the schedule: there are %u IPUs", parser->line,
                schedule->ipu_count);
    return IPU_OK;
}

ipu_status
ipu_schedule_parse(ipu_ctx *ctx, const char *text, ipu_schedule **out)
{
    parser parser = {.ctx = ctx, .at = text, .line = 1};
    header header = {0};
    ipu_schedule *schedule = NULL;
    *out = NULL;
    if (parse_header(&parser, &header) != IPU_OK) {
        goto done;
    }
    ipu_schedule_request request = {.name = header.name,
                                    .stage_count = (uint32_t)header.stages.count,
                                    .ipus = header.ipus.items,
                                    .positions = header.positions.items,
                                    .micro_batches = header.micro_batches,
                                    .is_training = header.is_training};
    if (ipu__schedule_new(ctx, &request, &schedule) != IPU_OK) {
        goto done;
    }
    schedule->is_one_at_a_time = header.is_one_at_a_time;
    schedule->time_steps = header.time_steps;
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        schedule->stash_depths[s] = header.stashes.items[s];
    }
    if (parse_rows(&parser, schedule) != IPU_OK) {
        ipu_schedule_free(ctx, schedule);
        goto done;
    }
    *out = schedule;
done:
    IPU_ARRAY_FREE(ctx, &header.stages);
    IPU_ARRAY_FREE(ctx, &header.positions);
    IPU_ARRAY_FREE(ctx, &header.ipus);
    IPU_ARRAY_FREE(ctx, &header.stashes);
    return ctx->status;
}
