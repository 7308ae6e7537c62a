// What holds of every chart.
#ifndef PSRING_EXPERIMENTS_REPORT_CHART_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_REPORT_CHART_TEST_UTIL_H_

#include <string>

#include "experiments/report/chart.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {

// Every field that a channel shows is in every row of its data set.
inline void CheckFields(const nlohmann::ordered_json& spec,
                        const nlohmann::ordered_json& datasets, std::string data,
                        const std::string& title) {
  if (spec.contains("data")) data = spec["data"]["name"];
  if (spec.contains("layer")) {
    for (const nlohmann::ordered_json& layer : spec["layer"])
      CheckFields(layer, datasets, data, title);
  }
  if (!spec.contains("mark")) return;
  ASSERT_TRUE(datasets.contains(data)) << title << ": " << data;
  EXPECT_FALSE(datasets[data].empty()) << title;
  for (const auto& [channel, value] : spec["encoding"].items()) {
    for (const nlohmann::ordered_json& one :
         value.is_array() ? value : nlohmann::ordered_json::array({value})) {
      if (!one.contains("field")) continue;
      for (const nlohmann::ordered_json& row : datasets[data]) {
        EXPECT_TRUE(row.contains(one["field"].get<std::string>()))
            << title << ": " << channel << " of " << one << " in " << row;
      }
    }
  }
}

inline void CheckChart(const Chart& chart) {
  CheckFields(chart.spec, chart.spec["datasets"], "", chart.title);
  EXPECT_FALSE(chart.title.empty());
  for (const auto& [field, title] : chart.columns) {
    for (const nlohmann::ordered_json& row : chart.rows) {
      EXPECT_TRUE(row.contains(field)) << chart.title << ": " << field;
    }
  }
}

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_CHART_TEST_UTIL_H_
