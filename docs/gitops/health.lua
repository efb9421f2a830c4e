-- The health of a Skyhook or NodeWright for Argo CD, from the object alone. Only base Lua: Argo CD loads no string library.
local health = { status = "Progressing", message = "the operator has not seen this version yet" }
local group = "nodewright.nvidia.com/"
if obj.kind == "Skyhook" then
  group = "skyhook.nvidia.com/"
end
local annotations = obj.metadata.annotations or {}
local status = obj.status or {}

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  if condition.status == "True" then
    conditions[condition.type] = condition.message or ""
  end
end
local function condition(kind)
  return conditions[kind] or conditions[group .. kind]
end

for _, kind in ipairs({ "DeletionBlocked", "UninstallFailed", "NodeStateMalformed", "DeploymentPolicyNotFound" }) do
  if condition(kind) ~= nil then
    health.status = "Degraded"
    health.message = kind .. ": " .. condition(kind)
    return health
  end
end
local function failing()
  for _, state in pairs(status.nodeStatus or {}) do
    if state == "erroring" then
      return true
    end
  end
  return status.status == "erroring"
end
local function package_failing()
  for _, packages in pairs(status.nodeState or {}) do
    for _, package in pairs(packages) do
      if package.state == "erroring" then
        return true
      end
    end
  end
  return false
end

if obj.metadata.deletionTimestamp ~= nil then
  health.message = "being deleted"
  if failing() or package_failing() then
    health.status = "Degraded"
    health.message = "being deleted, and a package fails"
  end
  return health
end
for _, stop in ipairs({ "disable", "pause" }) do
  if annotations[group .. stop] == "true" then
    health.status = "Suspended"
    health.message = stop .. "d"
    return health
  end
end
for name, compartment in pairs(status.compartmentStatuses or {}) do
  if (compartment.batchState or {}).shouldStop then
    health.status = "Degraded"
    health.message = "failures have stopped the rollout of compartment " .. name
    return health
  end
end
if failing() or status.status == "blocked" then
  health.status = "Degraded"
  health.message = "kubectl skyhook diagnose stuck " .. obj.metadata.name
  return health
end
for _, packages in pairs(status.nodeState or {}) do
  for _, recorded in pairs(packages) do
    local package = ((obj.spec or {}).packages or {})[recorded.name] or {}
    if (package.uninstall or {}).apply then
      health.message = "package " .. recorded.name .. " is being uninstalled"
      return health
    end
  end
end
-- The operator records the generation when it has completed it.
if status.status == "complete" and (status.observedGeneration or 0) >= (obj.metadata.generation or 0) then
  health.status = "Healthy"
  health.message = (status.completeNodes or "all") .. " nodes complete"
  return health
end
if status.status ~= nil then
  health.message = status.status .. ", " .. (status.completeNodes or "no") .. " nodes complete"
end
return health
