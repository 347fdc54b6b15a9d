/* SPDX-License-Identifier: MIT
 *
 * Whether AddressSanitizer watches: IPU_ADDRESS_SANITIZER is defined then. */
#ifndef IPU_BASE_SANITIZER_H
#define IPU_BASE_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define IPU_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IPU_ADDRESS_SANITIZER 1
#endif
#endif

#endif
