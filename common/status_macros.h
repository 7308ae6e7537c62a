// RETURN_IF_ERROR and ASSIGN_OR_RETURN under Abseil's own names: this Abseil has none
// yet, and the day it does this file goes.
#ifndef PSRING_COMMON_STATUS_MACROS_H_
#define PSRING_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                                     \
  do {                                                                  \
    if (absl::Status psring_status = (expression); !psring_status.ok()) \
      return psring_status;                                             \
  } while (false)

#define PSRING_CONCAT_INNER(a, b) a##b
#define PSRING_CONCAT(a, b) PSRING_CONCAT_INNER(a, b)

#define ASSIGN_OR_RETURN(left, expression) \
  ASSIGN_OR_RETURN_INNER(PSRING_CONCAT(psring_statusor, __LINE__), left, expression)

#define ASSIGN_OR_RETURN_INNER(temporary, left, expression)  \
  auto temporary = (expression);                             \
  if (!temporary.ok()) return std::move(temporary).status(); \
  left = *std::move(temporary)

#endif  // PSRING_COMMON_STATUS_MACROS_H_
