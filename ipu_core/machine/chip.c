/* SPDX-License-Identifier: MIT */
#include "machine/chip.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const ipu_chip_field fields[] = {
#define ROW(field, unit, least, most, source, ...) {#field, unit, source, least, most},
    IPU_CHIP_FIELDS(ROW)
#undef ROW
};

#define GC2(field, unit, least, most, source, gc2, gc200, bow, c600) .field = gc2,
#define GC200(field, unit, least, most, source, gc2, gc200, bow, c600) .field = gc200,
#define BOW(field, unit, least, most, source, gc2, gc200, bow, c600) .field = bow,
#define C600(field, unit, least, most, source, gc2, gc200, bow, c600) .field = c600,

static const struct {
    const char *name;
    ipu_chip chip;
} chips[] = {
    {"gc2", {IPU_CHIP_FIELDS(GC2)}},
    {"gc200", {IPU_CHIP_FIELDS(GC200)}},
    {"bow", {IPU_CHIP_FIELDS(BOW)}},
    {"c600", {IPU_CHIP_FIELDS(C600)}},
};

enum { CHIP_COUNT = sizeof(chips) / sizeof(chips[0]) };

const ipu_chip_field *
ipu_chip_field_of(uint32_t index)
{
    return &fields[index];
}

const char *
ipu_chip_name(uint32_t number)
{
    return number < CHIP_COUNT ? chips[number].name : NULL;
}

const ipu_chip *
ipu_chip_of(uint32_t number)
{
    return number < CHIP_COUNT ? &chips[number].chip : NULL;
}

/* A count, and not a size, a rate or a time. */
static bool
is_count(const ipu_chip_field *field)
{
    static const char *const units[] = {"tiles", "contexts", "units", "channels",
                                        "IPUs"};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(field->unit, units[i]) == 0) {
            return true;
        }
    }
    return false;
}

ipu_status
ipu_chip_check(ipu_ctx *ctx, const ipu_chip *chip)
{
    const double *values = &chip->tiles;
    for (uint32_t i = 0; i < IPU_CHIP_FIELD_COUNT; i++) {
        const ipu_chip_field *field = &fields[i];
        bool is_right = values[i] >= field->least && values[i] <= field->most;
        IPU_FAIL_IF(ctx, !is_right, INVALID_ARGUMENT,
                    "%s must be from %.15g to %.15g%s%s, but got %.15g", field->name,
                    field->least, field->most, *field->unit == '\0' ? "" : " ",
                    field->unit, values[i]);
        IPU_FAIL_IF(ctx, is_count(field) && floor(values[i]) != values[i],
                    INVALID_ARGUMENT, "%s must be a whole number of %s, but got %.15g",
                    field->name, field->unit, values[i]);
    }
    return IPU_OK;
}
