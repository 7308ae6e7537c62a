// Draws the charts of the page. Colours are CSS variables, which follow the theme by
// themselves; what is measured in pixels follows the width.
"use strict";
(async () => {
  const config = {
    font: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    background: null,
    view: { stroke: null },
    axis: {
      labelColor: "var(--soft)", titleColor: "var(--soft)", domainColor: "var(--line)",
      tickColor: "var(--line)", gridColor: "var(--line)", gridOpacity: 0.6,
      titleFontWeight: "normal", labelLimit: 150, labelFontSize: 11, titleFontSize: 11,
    },
    axisQuantitative: { tickCount: 6 },
    legend: {
      orient: "bottom", direction: "horizontal", labelColor: "var(--ink)",
      titleColor: "var(--soft)", titleFontWeight: "normal", symbolStrokeWidth: 3,
      labelLimit: 140, labelFontSize: 11, titleFontSize: 11,
    },
    text: { color: "var(--ink)", fill: "var(--ink)" },
  };
  const { charts } = JSON.parse(document.getElementById("charts").textContent);
  const options = { renderer: "svg", actions: false, config, tooltip: { theme: "custom" } };
  for (const [id, spec] of Object.entries(charts)) {
    const place = document.getElementById(id);
    // Names of arms take as many columns as there is room for.
    const columns = Math.max(1, Math.floor(place.clientWidth / 130));
    try {
      await vegaEmbed(place, spec, {
        ...options, config: { ...config, legend: { ...config.legend, columns } },
      });
      place.dataset.drawn = "yes";
    } catch (error) {
      place.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(error);
    }
  }
  document.documentElement.dataset.drawn = "yes";
})();
