#include "experiments/report/assets.h"

#include "absl/strings/ascii.h"

// The linker makes these names from those of the files (BUILD).
extern "C" {
extern const char _binary_page_css_start[];
extern const char _binary_page_css_end[];
extern const char _binary_page_js_start[];
extern const char _binary_page_js_end[];
extern const char _binary_chart_library_js_start[];
extern const char _binary_chart_library_js_end[];
extern const char _binary_missing_txt_start[];
extern const char _binary_missing_txt_end[];
extern const char _binary_licences_txt_start[];
extern const char _binary_licences_txt_end[];
}

namespace psring {
namespace {

absl::string_view Between(const char* start, const char* end) {
  return {start, static_cast<size_t>(end - start)};
}

}  // namespace

absl::string_view PageStyle() {
  return Between(_binary_page_css_start, _binary_page_css_end);
}

absl::string_view PageScript() {
  return Between(_binary_page_js_start, _binary_page_js_end);
}

absl::string_view ChartLibrary() {
  return Between(_binary_chart_library_js_start, _binary_chart_library_js_end);
}

absl::string_view WhyNoCharts() {
  return absl::StripAsciiWhitespace(
      Between(_binary_missing_txt_start, _binary_missing_txt_end));
}

absl::string_view Licences() {
  return Between(_binary_licences_txt_start, _binary_licences_txt_end);
}

}  // namespace psring
