// Made by `python -m tools.console_types` from koord/console/shapes.py.

export const MARKS = { needsAttention: 1, noReport: 2, lendingOff: 4, cordoned: 8, notReady: 16 } as const;
export type ActName = "colocation-off" | "colocation-on" | "thresholds" | "policy" | "rollout-start" | "rollout-stop" | "rollout-resume" | "rollout-undo" | "move-pod";
export type SettingValue = string | number | boolean | number[] | null;

export interface Saving { cores: number; gib: number; nodes: number }

export interface Error {
  object: string;
  cause: string;
  remedy: string;
}

export interface Me {
  user: string;
  groups: string[];
  cluster: string;
  version: string;
  epoch: string;
  signedInBy: "kubeconfig" | "token";
  can: Record<string, boolean>;
  missing: Record<string, string[]>;
  commands: Record<string, string>;
  namespaces: string[] | "all";
  csrf: string;
  startedAtS: number;
  hasPrometheus: boolean;
  grafanaUrl: string;
}

export interface ByBand {
  prod: number;
  mid: number;
  batch: number;
  free: number;
  system: number;
}

export interface ResourceSummary {
  capacity: number;
  allocatable: number;
  used: ByBand | null;
  usedInAll: number | null;
  asked: ByBand;
  lent: number;
  lentLeft: number;
  heldBack: number | null;
}

export interface Nodes {
  total: number;
  ready: number;
  reporting: number;
  silent: number;
  lending: number;
  cordoned: number;
  youngestReportS: number | null;
  oldestReportS: number | null;
}

export interface Services {
  ready: number;
  total: number;
  slowed: number | null;
  slowedWhyNull: string;
}

export interface ReasonGroup {
  reason: string;
  plugin: string;
  title: string;
  pods: number;
  oldestS: number;
  examples: string[];
}

export interface Pending {
  total: number;
  oldestS: number | null;
  groups: ReasonGroup[];
}

export interface Attention {
  level: "critical" | "ok" | "warning";
  title: string;
  cause: string;
  sinceAtS: number | null;
  link: string;
  remedy: string;
}

export interface Tenant {
  quota: string;
  parent: string;
  band: "-" | "batch" | "mid";
  usedMilli: number;
  requestMilli: number;
  minMilli: number;
  runtimeMilli: number;
  maxMilli: number | null;
  pending: number;
  problem: string;
}

export interface Overview {
  epoch: string;
  rev: number;
  atS: number;
  level: "critical" | "ok" | "warning";
  sentence: string;
  cluster: string;
  nodes: Nodes;
  services: Services;
  cpuMilli: ResourceSummary;
  memoryBytes: ResourceSummary;
  pending: Pending;
  evictedLastHour: number;
  movedLastHour: number;
  countedSinceAtS: number;
  attention: Attention[];
  attentionInAll: number;
  tenants: Tenant[];
  tenantsInAll: number;
  hiddenPods: number;
  staleSinceAtS: number | null;
  staleWhy: string;
}

export interface Shares {
  prodPermille: (number | null)[];
  midPermille: (number | null)[];
  batchPermille: (number | null)[];
  freePermille: (number | null)[];
  systemPermille: (number | null)[];
  heldBackPermille: (number | null)[];
  memoryPermille: (number | null)[];
  marks: number[];
}

export interface NodeMap {
  prodPermille: (number | null)[];
  midPermille: (number | null)[];
  batchPermille: (number | null)[];
  freePermille: (number | null)[];
  systemPermille: (number | null)[];
  heldBackPermille: (number | null)[];
  memoryPermille: (number | null)[];
  marks: number[];
  epoch: string;
  rev: number;
  by: string;
  groups: string[];
  group: number[];
  names: string[];
  capacityMilli: number[];
}

export interface MapDelta {
  prodPermille: (number | null)[];
  midPermille: (number | null)[];
  batchPermille: (number | null)[];
  freePermille: (number | null)[];
  systemPermille: (number | null)[];
  heldBackPermille: (number | null)[];
  memoryPermille: (number | null)[];
  marks: number[];
  epoch: string;
  rev: number;
  rows: number[];
  names: string[];
  group: string[];
  capacityMilli: number[];
}

export interface Silhouette {
  prodPermille: (number | null)[];
  midPermille: (number | null)[];
  batchPermille: (number | null)[];
  freePermille: (number | null)[];
  systemPermille: (number | null)[];
  heldBackPermille: (number | null)[];
  memoryPermille: (number | null)[];
  marks: number[];
  name: string;
  nodes: number;
  first: string[];
}

export interface Silhouettes {
  epoch: string;
  rev: number;
  by: string;
  groups: Silhouette[];
}

export interface Series {
  scope: string;
  resource: "cpu" | "memory";
  unit: "bytes" | "milli-cores";
  t0AtS: number;
  stepS: number;
  capacity: (number | null)[];
  prod: (number | null)[];
  mid: (number | null)[];
  batch: (number | null)[];
  free: (number | null)[];
  system: (number | null)[];
  askedProd: (number | null)[];
  lent: (number | null)[];
  heldBack: (number | null)[];
  source: "prometheus" | "server";
  sinceAtS: number;
  note: string;
}

export interface NodeColumns {
  name: string[];
  group: string[];
  marks: (number | null)[];
  capacityMilli: (number | null)[];
  usedMilli: (number | null)[];
  usedPermille: (number | null)[];
  prodMilli: (number | null)[];
  midMilli: (number | null)[];
  batchMilli: (number | null)[];
  freeMilli: (number | null)[];
  systemMilli: (number | null)[];
  heldBackMilli: (number | null)[];
  lentMilli: (number | null)[];
  lentLeftMilli: (number | null)[];
  askedProdMilli: (number | null)[];
  memoryBytes: (number | null)[];
  memoryUsedBytes: (number | null)[];
  memoryLentBytes: (number | null)[];
  pods: (number | null)[];
  reportAgeS: (number | null)[];
}

export interface PendingColumns {
  namespace: string[];
  name: string[];
  owner: string[];
  quota: string[];
  band: string[];
  gang: string[];
  reason: string[];
  plugin: string[];
  title: string[];
  message: string[];
  nodes: (number | null)[];
  askedMilli: (number | null)[];
  askedBytes: (number | null)[];
  ageS: (number | null)[];
}

export interface ServiceColumns {
  namespace: string[];
  kind: string[];
  name: string[];
  ready: (number | null)[];
  total: (number | null)[];
  slowedLastDay: (number | null)[];
  evictedLastHour: (number | null)[];
  usedMilli: (number | null)[];
  askedMilli: (number | null)[];
  neighbours: (number | null)[];
}

export interface QuotaColumns {
  quota: string[];
  parent: string[];
  tree: string[];
  depth: (number | null)[];
  isParent: boolean[];
  band: string[];
  usedMilli: (number | null)[];
  requestMilli: (number | null)[];
  runtimeMilli: (number | null)[];
  minMilli: (number | null)[];
  maxMilli: (number | null)[];
  usedBytes: (number | null)[];
  runtimeBytes: (number | null)[];
  minBytes: (number | null)[];
  maxBytes: (number | null)[];
  borrowsMilli: (number | null)[];
  lendsMilli: (number | null)[];
  pending: (number | null)[];
  problem: string[];
}

export interface ChangeColumns {
  id: string[];
  atS: number[];
  kind: string[];
  who: string[];
  what: string[];
  why: string[];
  result: string[];
  object: string[];
  link: string[];
  canUndo: boolean[];
}

export interface Page<C> {
  epoch: string;
  rev: number;
  total: number;
  hidden: number;
  columns: C;
  next: string | null;
}

export interface PendingGroups {
  epoch: string;
  rev: number;
  total: number;
  sentence: string;
  groups: ReasonGroup[];
}

export interface NodePod {
  namespace: string;
  name: string;
  band: string;
  qos: string;
  phase: string;
  ready: boolean;
  askedMilli: number;
  askedBytes: number;
  usedMilli: number | null;
  usedBytes: number | null;
}

export interface HistoryEntry {
  atS: number;
  title: string;
  reason: string;
  object: string;
  link: string;
}

export interface NodeDetail {
  epoch: string;
  rev: number;
  name: string;
  level: "critical" | "ok" | "warning";
  sentence: string;
  pool: string;
  labels: Record<string, string>;
  ready: boolean;
  cordoned: boolean;
  marks: number;
  lendingOn: boolean;
  lendingOffWhy: string;
  reportAgeS: number | null;
  reportStaleWhy: string;
  capacityMilli: number;
  cpuMilli: ResourceSummary;
  memoryBytes: ResourceSummary;
  suppressPermille: number | null;
  evictMemoryPermille: number | null;
  pods: NodePod[];
  hiddenPods: number;
  history: HistoryEntry[];
  command: string;
}

export interface PodDetail {
  epoch: string;
  rev: number;
  namespace: string;
  name: string;
  uid: string;
  level: "critical" | "ok" | "warning";
  sentence: string;
  phase: string;
  ready: boolean;
  node: string;
  band: string;
  qos: string;
  priority: number | null;
  quota: string;
  gang: string;
  owner: string;
  schedulerName: string;
  createdAtS: number;
  scheduledAtS: number | null;
  askedMilli: number;
  askedBytes: number;
  usedMilli: number | null;
  usedBytes: number | null;
  reason: string;
  plugin: string;
  title: string;
  message: string;
  pendingS: number | null;
  similarWaitMedianS: number | null;
  similarWaitP90S: number | null;
  similarPods: number;
  history: HistoryEntry[];
  command: string;
}

export interface Explanation {
  ticket: string;
  explained: Explained | null;
  error: string;
  tookS: number;
}

export interface Slowdown {
  atS: number;
  pod: string;
  reason: string;
  message: string;
}

export interface ServiceDetail {
  namespace: string;
  kind: string;
  name: string;
  sentence: string;
  ready: number;
  total: number;
  pods: NodePod[];
  neighbours: NodePod[];
  slowdowns: Slowdown[];
  detectionNote: string;
}

export interface QuotaDetail {
  quota: string;
  sentence: string;
  path: Tenant[];
  children: Tenant[];
  pods: NodePod[];
  pending: string[];
  hiddenPods: number;
  command: string;
}

export interface WorthRow {
  name: string;
  lentCpuHours: number;
  usedCpuHours: number;
  lentGibHours: number;
  usedGibHours: number;
  evictions: number;
  nodeHoursSaved: number;
  costSaved: number | null;
}

export interface WorthMoment {
  atS: number;
  offeredMilli: number;
  lentMilli: number;
  usedMilli: number;
}

export interface WorthAnswer {
  sentence: string;
  by: "namespace" | "quota" | "workload";
  since: string;
  source: string;
  offeredCpuHours: number;
  offeredGibHours: number;
  total: WorthRow;
  rows: WorthRow[];
  course: WorthMoment[];
  rightSizing: { total: Saving; workloads: (Saving & { workload: string })[] };
  notes: string[];
  command: string;
}

export interface HealthAnswer {
  level: "critical" | "ok" | "warning";
  sentence: string;
  status: { version: string; checks: Finding[]; notes: string[] };
  command: string;
}

export interface Find {
  kind: "node" | "pod" | "quota" | "service";
  name: string;
  detail: string;
  link: string;
}

export interface Finds {
  finds: Find[];
  hidden: number;
}

export interface Scope {
  nodes?: string[];
  pool?: string;
  pod?: string;
  feature?: string;
}

export interface PreviewRequest {
  act: "colocation-off" | "colocation-on" | "move-pod" | "policy" | "rollout-resume" | "rollout-start" | "rollout-stop" | "rollout-undo" | "thresholds";
  scope?: Scope;
  evict?: boolean;
  why?: string;
  settings?: Record<string, string | number | boolean | number[] | null>;
}

export interface PreviewPod {
  pod: string;
  uid: string;
  node: string;
  priorityClass: string;
}

export interface SettingChange {
  field: string;
  before: string;
  after: string;
}

export interface WhatIf {
  nodes: number;
  lentMilliBefore: number;
  lentMilliAfter: number;
  lentBytesBefore: number;
  lentBytesAfter: number;
  evictions: string[];
  evictionsInAll: number;
  note: string;
}

export interface HistoryFigure {
  name: string;
  before: string;
  after: string;
}

export interface HistoryWhatIf {
  sentence: string;
  figures: HistoryFigure[];
  evictions: number;
  error: string;
  command: string;
}

export interface Preview {
  id: string;
  act: "colocation-off" | "colocation-on" | "move-pod" | "policy" | "rollout-resume" | "rollout-start" | "rollout-stop" | "rollout-undo" | "thresholds";
  scope: Scope;
  evict: boolean;
  settings: Record<string, string | number | boolean | number[] | null>;
  why: string;
  sentence: string;
  verb: string;
  nodes: string[];
  nodesInAll: number;
  takenBackMilli: number;
  takenBackBytes: number;
  podsThatGo: PreviewPod[];
  podsThatStay: string[];
  podsThatStayInAll: number;
  podsSpared: string[];
  podsSparedInAll: number;
  budgets: Record<string, string>;
  changes: SettingChange[];
  whatIf: WhatIf | null;
  history: HistoryWhatIf | null;
  missingRights: string[];
  cannotBeUndone: string;
  typeToConfirm: string;
  command: string;
  atS: number;
  expiresAtS: number;
  notes: string[];
}

export interface PreviewChanged {
  object: string;
  cause: string;
  remedy: string;
  preview: Preview;
  differences: string[];
}

export interface ActRequest {
  preview: string;
  typed?: string;
  why?: string;
}

export interface ActStep {
  title: string;
  done: number;
  of: number | null;
  state: "done" | "failed" | "running" | "waiting";
}

export interface Act {
  id: string;
  act: "colocation-off" | "colocation-on" | "move-pod" | "policy" | "rollout-resume" | "rollout-start" | "rollout-stop" | "rollout-undo" | "thresholds";
  scope: Scope;
  settings: Record<string, string | number | boolean | number[] | null>;
  who: string;
  why: string;
  atS: number;
  state: "done" | "failed" | "interrupted" | "running";
  sentence: string;
  steps: ActStep[];
  evicted: string[];
  refused: Record<string, string>;
  hiddenPods: number;
  endedAtS: number | null;
  canUndo: boolean;
  undoNote: string;
  undoOf: string;
  undoneBy: string;
  command: string;
}

export interface PoolChoice {
  name: string;
  selector: string;
  nodes: number;
}

export interface Threshold {
  name: string;
  section: string;
  title: string;
  unit: string;
  minimum: number;
  maximum: number;
  value: number | null;
  own: number | null;
  setIn: string;
}

export interface PolicyInForce {
  cpu: string;
  memory: string;
  markPercent: number | null;
  setIn: string;
  nodes: number;
}

export interface Settings {
  pool: string;
  lendingOn: number;
  nodes: number;
  pools: PoolChoice[];
  thresholds: Threshold[];
  policies: PolicyInForce[];
  policyChoices: Record<string, string[]>;
  faults: string[];
  command: string;
}

export interface RolloutLimit {
  name: string;
  count: number;
  limit: number;
  examples: string[];
}

export interface RolloutState {
  feature: string;
  about: string;
  state: "complete" | "none" | "running" | "stopped";
  sentence: string;
  steps: number[];
  step: number;
  percent: number;
  nodes: number;
  pool: number;
  selector: string;
  sinceAtS: number | null;
  everyS: number;
  nextAtS: number | null;
  reason: string;
  limits: RolloutLimit[];
  takenBack: string[];
  onStop: "back" | "hold";
  acts: ("colocation-off" | "colocation-on" | "move-pod" | "policy" | "rollout-resume" | "rollout-start" | "rollout-stop" | "rollout-undo" | "thresholds")[];
}

export interface Rollouts {
  rollouts: RolloutState[];
  faults: string[];
  command: string;
}

export interface GangDetail {
  namespace: string;
  name: string;
  level: "critical" | "ok" | "warning";
  sentence: string;
  minMember: number | null;
  scheduled: number;
  pending: number;
  pods: NodePod[];
  reasons: ReasonGroup[];
  command: string;
}

export interface Reset {
  epoch: string;
  rev: number;
}

export interface Changed {
  epoch: string;
  rev: number;
}

export interface Explained {
  pod: string;
  outcome: "denied" | "fits" | "skipped" | "unschedulable" | "waiting";
  message: string;
  placedBefore: number;
  asIfNew: boolean;
  foreign: string;
  schedulerName: string;
  unanswered: string;
  missingNode: string;
  unacted: string[];
  moves: string[];
  slowdowns: string[];
  explanation: PodExplained | null;
}

export interface PodExplained {
  pod: string;
  profile: string;
  outcome: "fits" | "unschedulable";
  node: string | null;
  chosen: string | null;
  message: string;
  nodes: number;
  feasible: number;
  refusal: string;
  whyNot: Against[];
  weights: Record<string, number>;
  whyThere: Standing[];
  changes: ChangeTold[];
  preemption: Preemption | null;
  suggestion: Suggestion | null;
  volumes: string;
  job: string[];
  gets: Record<string, string>;
  remarks: string[];
  quota: QuotaPath | null;
}

export interface Against {
  plugin: string;
  reason: string;
  nodes: number;
  examples: string[];
  detail: string;
}

export interface Standing {
  node: string;
  total: number;
  scores: Record<string, number>;
  chosen: boolean;
}

export interface ChangeTold {
  nodes: string[];
  steps: StepTold[];
  text: string;
}

export interface StepTold {
  plugin: string;
  mends: string[];
  on: "node" | "others" | "pod" | "storage";
  text: string;
  victims: string[];
}

export interface Preemption {
  node: string | null;
  victims: string[];
  message: string;
}

export interface Suggestion {
  type: "DeleteConflictPVC" | "EvictWorkloadSelf" | "WaitingVictimReleased";
  message: string;
}

export interface QuotaPath {
  quota: string;
  path: QuotaFigures[];
  short: string;
  borrowers: Borrower[];
  frees: string[];
}

export interface QuotaFigures {
  name: string;
  parent: string;
  tree: string;
  request: Record<string, string | number>;
  childRequest: Record<string, string | number>;
  used: Record<string, string | number>;
  runtime: Record<string, string | number>;
  min: Record<string, string | number>;
  max: Record<string, string | number>;
  sharedWeight: Record<string, string | number>;
  allowLentResource: boolean;
  nonPreemptibleRequest: Record<string, string | number>;
  nonPreemptibleUsed: Record<string, string | number>;
  allocated: Record<string, string | number>;
  guaranteed: Record<string, string | number>;
  unusable: string;
}

export interface Borrower {
  quota: string;
  beside: string;
  resource: string;
  used: string;
  guaranteed: string;
  borrowed: string;
}

export interface NodeExplanation {
  node: string;
  time: string;
  colocation: boolean;
  whyOff: string;
  configuration: "current" | "stale" | "unavailable";
  report: MetricReport;
  settings: Setting[];
  resources: ResourceExplanation[];
  pods: PodExplanation[];
  zones: ZoneExplanation[];
  annotations: Record<string, unknown>;
  notes: string[];
  lastWritten: string | null;
  manager: string;
}

export interface MetricReport {
  updateTime: string | null;
  ageSeconds: number | null;
  staleInSeconds: number | null;
  aheadSeconds: number;
  distrusted: string;
}

export interface Setting {
  field: string;
  value: boolean | number | string | null;
  setIn: string;
}

export interface ResourceExplanation {
  resource: string;
  unit: "bytes" | "cores" | "milli-cores" | "percent";
  policy: string;
  lines: Line[];
  recomputed: number | null;
  quantity: string | null;
  published: number | null;
  matches: boolean;
  whyNone: string;
  whyDifferent: string;
}

export interface Line {
  op: string;
  name: string;
  amount: number;
  why: string;
}

export interface PodExplanation {
  pod: string;
  priorityClass: string;
  qos: string;
  requestedCpu: number;
  requestedMemory: number;
  usedCpu: number | null;
  usedMemory: number | null;
  countedCpu: number;
  countedMemory: number;
  why: string;
}

export interface ZoneExplanation {
  zone: string;
  resources: Record<string, number>;
  lines: Record<string, Line[]>;
}

export interface Finding {
  name: string;
  ok: boolean;
  problems: Problem[];
}

export interface Problem {
  what: string;
  how: string;
}
