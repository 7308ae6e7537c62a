// Files that the program carries, for pages that need nothing else.
#ifndef PSRING_EXPERIMENTS_REPORT_ASSETS_H_
#define PSRING_EXPERIMENTS_REPORT_ASSETS_H_

#include "absl/strings/string_view.h"

namespace psring {

absl::string_view PageStyle();
absl::string_view PageScript();
// Vega, Vega-Lite and vega-embed, minified, to be run in this order. Empty where the
// program was built without them: WhyNoCharts then says why, "npm was not there".
absl::string_view ChartLibrary();
absl::string_view WhyNoCharts();
// Of the packages of the chart library: names, versions and licences, then the texts.
absl::string_view Licences();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_ASSETS_H_
