#include "experiments/report/chart.h"

#include "absl/strings/str_cat.h"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

// The page's style has so many for arms.
constexpr size_t kArmColours = 12;

Json ColourOf(const std::string& field, const std::string& title, Json domain,
              Json range) {
  return {{"field", field},
          {"type", "nominal"},
          {"title", title.empty() ? Json(nullptr) : Json(title)},
          {"scale", {{"domain", std::move(domain)}, {"range", std::move(range)}}}};
}

}  // namespace

Json EmptySpec(const std::string& title, int height) {
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"description", title},
          {"width", "container"},
          {"height", height},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
          {"background", nullptr}};
}

Json Quantity(const std::string& field, const std::string& title) {
  return {{"field", field}, {"type", "quantitative"}, {"title", title}};
}

Json Name(const std::string& field) {
  return {{"field", field}, {"type", "nominal"}, {"title", nullptr}, {"sort", nullptr}};
}

Json ArmColour(const std::string& field, const std::vector<std::string>& arms) {
  Json range = Json::array();
  for (size_t i = 0; i < arms.size(); ++i) {
    range.push_back(absl::StrCat("var(--arm-", i % kArmColours, ")"));
  }
  return ColourOf(field, "", arms, std::move(range));
}

Json NamedColour(const std::string& field, const std::string& title,
                 const std::vector<std::pair<std::string, std::string>>& colours) {
  Json domain = Json::array();
  Json range = Json::array();
  for (const auto& [name, variable] : colours) {
    domain.push_back(name);
    range.push_back(absl::StrCat("var(", variable, ")"));
  }
  return ColourOf(field, title, std::move(domain), std::move(range));
}

Json Tooltip(const std::vector<std::pair<std::string, std::string>>& columns) {
  Json tooltip = Json::array();
  for (const auto& [field, title] : columns) {
    tooltip.push_back({{"field", field}, {"title", title}});
  }
  return tooltip;
}

}  // namespace psring
